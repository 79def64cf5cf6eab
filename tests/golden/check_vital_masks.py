"""Channels that are kept in the incomplete track, and how many targets the released code scores in the complete one."""

from __future__ import annotations

import harness

from wearjax.segments import vital_masks


@harness.checks("vital_masks")
def check(case: dict) -> None:
    for centre, expected in case.items():
        if centre == harness.FILE_KEY:
            continue
        covariates, targets, seed = expected["n_covariate"], expected["n_target"], expected["seed"]
        batches = expected["train_next_batches"]
        drawn = vital_masks.of_batches(covariates, targets, 0, len(batches), seed=seed)
        assert [kept.tolist() for kept in drawn] == batches, centre
        first = vital_masks.ChannelDraws(covariates, targets, seed=seed).draw()
        assert first.tolist() == expected["train_construction_draw"]["indices"], centre
        cases = expected["val_or_test_first_cases"]
        drawn = vital_masks.of_cases(covariates, targets, len(cases), seed=seed)
        assert [kept.tolist() for kept in drawn] == [each["indices"] for each in cases], centre
        last = vital_masks.last_targets_of_cases(covariates, targets, len(cases), seed=seed)
        assert last.tolist() == [each["n_target_kept"] for each in cases], centre
        quirk = expected["track1_train_loader_n_tgt_keep_quirk"]
        assert vital_masks.last_targets_of_training(covariates, targets, seed=seed) == quirk, centre
