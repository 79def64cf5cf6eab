"""A small LSM-2 that trains in seconds on a laptop: for trying commands and for tests, not for results."""

from wearjax.models.lsm2 import LSM2Config
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig


def get_config() -> PretrainConfig:
    return PretrainConfig(
        name="tiny",
        data=DataConfig(batch_size=8),
        model=LSM2Config(
            patch=60,
            encoder_dim=32,
            encoder_depth=2,
            encoder_heads=2,
            decoder_dim=32,
            decoder_depth=1,
            decoder_heads=2,
        ),
        optimizer=OptimizerConfig(learning_rate=1e-3),
        loop=LoopConfig(
            steps=100, log_every=10, validate_every=50, validation_examples=32, checkpoint_every=50
        ),
    )
