"""WBM at the published size: contrastive pretraining of a weekly encoder (OpenMHC).

Learning rate, batch size, length and weight decay are not published; these are ours. The gradient is clipped, since
the term that spreads the vectors (KoLeo) grows like one over their distance and starts with vectors that coincide.
"""

from wearjax.models.wbm import WBMConfig
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig


def get_config() -> PretrainConfig:
    return PretrainConfig(
        name="wbm",
        data=DataConfig(batch_size=256),
        model=WBMConfig(),
        optimizer=OptimizerConfig(learning_rate=1e-3, weight_decay=1e-4, warmup_fraction=0.05, clip_norm=1.0),
        loop=LoopConfig(epochs=200, log_every=20, validate_every=200, checkpoint_every=200),
    )
