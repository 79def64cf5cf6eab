"""LSM-2-Sparse at the published size: a cross-day decoder on a frozen daily encoder (OpenMHC).

Start it from a trained daily model: `--loop.init_from RUN/bundle`. Learning rate and batch size are not published;
these are ours.
"""

from wearjax.models.lsm2_sparse import LSM2SparseConfig
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig


def get_config() -> PretrainConfig:
    return PretrainConfig(
        name="lsm2_sparse",
        data=DataConfig(batch_size=16),
        model=LSM2SparseConfig(),
        optimizer=OptimizerConfig(learning_rate=1e-4, weight_decay=0.05, warmup_fraction=0.05),
        loop=LoopConfig(epochs=50, log_every=50, validate_every=500, checkpoint_every=500),
    )
