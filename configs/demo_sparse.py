"""A small LSM-2-Sparse that looks across the days of the demonstration's model.

Run the demonstration first, then `wearjax pretrain demo_sparse --data wearjax-demo/days --loop.init_from
wearjax-demo/run/bundle`.
"""

import dataclasses

from wearjax.models.lsm2_sparse import LSM2SparseConfig
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig, load_config


def get_config() -> PretrainConfig:
    return PretrainConfig(
        name="demo_sparse",
        data=DataConfig(batch_size=2),
        model=LSM2SparseConfig(**dataclasses.asdict(load_config("demo").model) | {"decoder_depth": 2}),
        optimizer=OptimizerConfig(learning_rate=1.5e-3),
        loop=LoopConfig(
            steps=800, log_every=50, validate_every=200, validation_examples=16, checkpoint_every=200
        ),
    )
