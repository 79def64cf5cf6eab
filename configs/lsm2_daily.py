"""LSM-2 on single days at the published size: masked autoencoding of ten-minute tokens (Xu et al. 2025)."""

from wearjax.models.lsm2 import LSM2Config
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig


def get_config() -> PretrainConfig:
    return PretrainConfig(
        name="lsm2_daily",
        data=DataConfig(batch_size=64),
        model=LSM2Config(),
        optimizer=OptimizerConfig(learning_rate=1e-4, weight_decay=0.05, warmup_fraction=0.05),
        loop=LoopConfig(epochs=25, log_every=50, validate_every=500, checkpoint_every=500),
    )
