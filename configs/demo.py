"""The demonstration's LSM-2: small enough to learn on two CPU cores in a few minutes."""

from wearjax.models.lsm2 import LSM2Config
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig


def get_config() -> PretrainConfig:
    return PretrainConfig(
        name="demo",
        data=DataConfig(batch_size=4),
        model=LSM2Config(
            patch=30,
            encoder_dim=64,
            encoder_depth=1,
            encoder_heads=2,
            decoder_dim=64,
            decoder_depth=1,
            decoder_heads=2,
            dropout=0.0,
            binary_weight=4.0,
            position_period=50.0,
            start="local",
        ),
        optimizer=OptimizerConfig(learning_rate=1.5e-3),
        loop=LoopConfig(
            steps=2000, log_every=100, validate_every=500, validation_examples=64, checkpoint_every=500
        ),
    )
