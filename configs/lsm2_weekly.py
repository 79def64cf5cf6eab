"""LSM-2 on weeks at the published size: masked autoencoding of hour tokens over seven days (OpenMHC)."""

from wearjax.models.lsm2 import LSM2Config
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig


def get_config() -> PretrainConfig:
    return PretrainConfig(
        name="lsm2_weekly",
        data=DataConfig(batch_size=64),
        model=LSM2Config(minutes=7 * 1440, patch=60),
        optimizer=OptimizerConfig(learning_rate=1e-4, weight_decay=0.05, warmup_fraction=0.05),
        loop=LoopConfig(epochs=25, log_every=50, validate_every=500, checkpoint_every=500),
    )
