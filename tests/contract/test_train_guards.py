"""The guards of private training, and for each the test that fails without it or shows what a mutant does.

A row whose guard or test was renamed or removed fails here; the tests themselves run where they stand.
"""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TRAIN = "tacit.train.clip"
GUARDS: list[tuple[str, str, str, str]] = [
    # what would be false without it, where it is, and the test that fails without it or shows its mutant
    ("records meet in a batch", f"{TRAIN}.capture.level:Level",
     "property/test_train_mixing.py", "test_mutant_a_batch_whose_losses_are_clipped_after_mixing"),
    ("a tensor of an earlier pass is read", f"{TRAIN}.capture.watch:Capture._own",
     "unit/test_train_isolation.py", "test_mutant_tensors_of_an_earlier_pass_are_taken"),
    ("a record sees what an earlier one left", f"{TRAIN}.isolation.reach:Surroundings.run",
     "unit/test_train_isolation.py", "test_mutant_nothing_is_put_back"),
    ("an object that cannot be put back carries data", f"{TRAIN}.clipper:Clipper._check_reach",
     "unit/test_train_isolation.py", "test_mutant_what_cannot_be_put_back_is_not_refused"),
    ("a loss keeps records in closures, buffers, objects", f"{TRAIN}.clipper:Clipper.around",
     "property/test_train_mixing.py", "test_mutant_records_that_share_what_a_loss_keeps"),
    ("a batch norm layer mixes its batch", f"{TRAIN}.capture.functions:refuse",
     "unit/test_train_batch_norm.py", "test_mutant_a_layer_that_is_not_put_back_is_refused_by_the_operation"),
    ("inner products cancel", f"{TRAIN}.rounding:inner_error",
     "unit/test_train_contributions.py", "test_inner_products_in_float32_without_their_rounding_would_not_clip"),
    ("a squared length is too little", f"{TRAIN}.rules.outer:Outer.norm2",
     "unit/test_train_contributions.py", "test_a_square_by_inner_products_is_never_too_little"),
    ("TF32 rounds factors", f"{TRAIN}.arrays:coarse",
     "unit/test_train_contributions.py", "test_without_room_for_tf32_a_contribution_exceeds_the_clip_norm"),
    ("sums in less than float32", f"{TRAIN}.arrays:full_float32",
     "unit/test_train_contributions.py", "test_sums_are_made_in_full_float32_whatever_the_program_has_set"),
    ("bfloat16 rounds factors", f"{TRAIN}.rules.terms:slack2",
     "unit/test_train_precision.py", "test_cancelling_positions_need_the_room_for_rounding"),
    ("a mixture of terms is written out", f"{TRAIN}.rules.terms:norm2",
     "unit/test_train_contributions.py", "test_a_mixture_that_cancels_needs_room_for_what_writing_it_out_rounds"),
    ("squares underflow", f"{TRAIN}.rounding:LOST",
     "unit/test_train_contributions.py", "test_what_underflows_in_a_square_counts"),
    ("squares overflow", f"{TRAIN}.rounding:LARGE",
     "unit/test_train_contributions.py", "test_records_beyond_what_float32_can_square_give_nothing_and_harm_nobody"),
    ("long gradients are measured in one sum", f"{TRAIN}.arrays:squares",
     "unit/test_train_contributions.py", "test_long_gradients_are_measured_in_parts"),
    ("a word is looked up very often", f"{TRAIN}.rules.terms:Gather",
     "unit/test_train_contributions.py", "test_a_row_looked_up_very_often_is_added_up_in_float64"),
    ("sums over very many records", f"{TRAIN}.rounding:needs_float64",
     "unit/test_train_contributions.py", "test_sums_over_very_many_records_stay_near_the_exact_ones"),
    ("float64 is not enough", f"{TRAIN}.rounding:borne",
     "unit/test_train_contributions.py", "test_weights_leave_room_for_float64_too"),
    ("a sample larger than expected", f"{TRAIN}.rounding:at_most",
     "unit/test_train_contributions.py", "test_a_sample_larger_than_expected_takes_its_own_size"),
    ("experts' rows are told apart", f"{TRAIN}.rules.experts:experts_of",
     "oracle/test_train_models.py", "test_mutant_rows_of_another_expert"),
    ("padding of an embedding bag counts", f"{TRAIN}.rules.expansions:EXPANSIONS",
     "oracle/test_train_clip_odd.py", "test_mutant_an_embedding_bag_whose_padding_counts"),
    ("a compiled step that does not clip", f"{TRAIN}.compile.compiled:Compiled",
     "unit/test_train_compiled.py", "test_a_compiler_that_never_clips_is_refused_where_nothing_needs_it"),
    ("the noise has another scale", "tacit.train.noise.release:Release",
     "statistical/test_train_noise.py", "test_the_wrong_scale_is_caught"),
    ("noise on a grid has another scale", "tacit.train.noise.grid:Grid",
     "statistical/test_train_grid.py", "test_the_wrong_scale_is_caught"),
    ("the noise of the clip norm's count", f"{TRAIN}.adaptive:next_norm",
     "statistical/test_train_adaptive.py", "test_the_wrong_scale_is_caught"),
    ("correlated noise is another", "tacit.train.noise.correlated:Correlated",
     "statistical/test_train_correlated.py", "test_other_noise_is_caught"),
    ("samples are drawn at another rate", "tacit.train.sample.draw:Sampler",
     "statistical/test_train_noise.py", "test_a_wrong_rate_is_caught"),
    ("a fleet's positions cancel", "tacit.fleet.certified:of_sums",
     "unit/test_train_contributions.py", "test_fleets_need_their_room_for_positions_that_cancel"),
    ("a fleet's squares underflow", "tacit.fleet.certified:length_of",
     "unit/test_train_contributions.py", "test_fleets_need_their_room_for_squares_that_underflow"),
    ("a fleet's sums in float32", "tacit.fleet.certified:Clip.settled",
     "unit/test_train_contributions.py", "test_fleets_need_float64_for_sums_of_parts_that_cancel"),
    ("a fleet's model keeps records", "tacit.fleet.stack:AnyStack._kept_apart",
     "property/test_train_mixing.py", "test_mutant_a_fleet_that_keeps_what_a_model_kept"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "guard", "file", "test"), GUARDS)
def test_a_guard_exists_and_so_does_its_test(what: str, guard: str, file: str, test: str) -> None:
    module, _, name = guard.partition(":")
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert [node.name for node in tree.body if isinstance(node, ast.FunctionDef)].count(test) == 1, what


def test_no_guard_is_named_twice() -> None:
    assert len({(guard, test) for _, guard, _, test in GUARDS}) == len(GUARDS)
