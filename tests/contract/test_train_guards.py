"""The guards of private training, and for each the test that fails without it.

A row whose guard or test was renamed or removed fails here; the tests themselves run where they stand.
`benchmarks/guards.py` takes every guard away in turn and runs its test; the result is kept.
"""

import ast
import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TRAIN = "tacit.train.clip"
GUARDS: list[tuple[str, str, str, str]] = [
    # what would be false without it, where it is, and the test that fails without it
    ("records meet in a batch", f"{TRAIN}.capture.level:Level",
     "property/test_train_mixing.py", "test_one_record_moves_the_sum_by_at_most_the_clip_norm"),
    ("a tensor of an earlier pass is read", f"{TRAIN}.capture.watch:Capture._own",
     "unit/test_train_isolation.py", "test_mutant_tensors_of_an_earlier_pass_are_taken"),
    ("a record sees what an earlier one left", f"{TRAIN}.isolation.surroundings:Surroundings.run",
     "unit/test_train_isolation.py", "test_a_later_record_does_not_see_an_earlier_one"),
    ("an object that cannot be put back carries data", f"{TRAIN}.clipper:Clipper._check_reach",
     "unit/test_train_isolation.py", "test_what_cannot_be_put_back_is_refused"),
    ("a loss keeps records in closures, buffers, objects", f"{TRAIN}.clipper:Clipper.around",
     "unit/test_train_isolation.py", "test_a_later_record_does_not_see_an_earlier_one"),
    ("coins fall anew for every part of a step", f"{TRAIN}.capture.coins:Coins.part",
     "unit/test_train_parts.py", "test_coins_fall_alike_for_all_parts_of_a_step"),
    ("random numbers of records are known", f"{TRAIN}.capture.coins:drawn_from", "unit/test_train_parts.py",
     "test_random_numbers_of_records_follow_from_the_runs_own_source_and_not_from_a_seed_that_a_script_sets"),
    ("random numbers of records follow from 32 bits", f"{TRAIN}.capture.coins:seed_wholly",
     "unit/test_train_parts.py", "test_numbers_of_records_follow_from_the_whole_key"),
    ("hooks and modes are shown all records", f"{TRAIN}.capture.onlookers:onlooker",
     "unit/test_train_onlookers.py", "test_who_would_see_all_records_sees_one"),
    ("hooks of the backward pass do not run", f"{TRAIN}.capture.onlookers:backward_hooks",
     "unit/test_train_onlookers.py", "test_hooks_of_the_backward_pass_run_for_each_record"),
    ("a library keeps records", f"{TRAIN}.isolation.surroundings:Surroundings._call",
     "unit/test_train_libraries.py", "test_what_a_library_keeps_is_put_back"),
    ("a record changes the coins of others", f"{TRAIN}.capture.coins:rewound",
     "unit/test_train_strangers.py", "test_a_record_at_which_torch_raises_leaves_the_coins_of_others"),
    ("a pass that a value stops leaves something", f"{TRAIN}.capture.total:with_constants",
     "unit/test_train_unseen.py", "test_a_pass_that_a_value_stops_leaves_nothing_behind"),
    ("a pass with constants in it is taken", f"{TRAIN}.capture.watch:Capture.check_caught",
     "unit/test_train_total.py", "test_a_record_at_which_an_operation_raises_changes_nothing_for_the_others"),
    ("who raises in the backward pass is not found", f"{TRAIN}.replaced:_sought",
     "unit/test_train_total.py", "test_rows_that_make_a_run_raise_are_found_and_left_out"),
    ("a run that failed is repeated with other numbers", f"{TRAIN}.replaced:drawn_alike",
     "unit/test_train_total.py", "test_a_record_at_which_an_operation_raises_changes_nothing_for_the_others"),
    ("something is changed while the backward pass runs", f"{TRAIN}.capture.coins:looked_backwards",
     "unit/test_train_total.py", "test_what_is_changed_while_the_backward_pass_runs_is_found"),
    ("a pass counts by an iterator", f"{TRAIN}.isolation.hidden:Hidden.moved",
     "unit/test_train_parts.py", "test_who_counts_calls_by_an_object_of_c_code_is_refused"),
    ("a switch leads to code that nobody looked at", f"{TRAIN}.modes:switches",
     "unit/test_train_modes.py", "test_code_behind_a_switch_that_counts_calls_runs_one_record_at_a_time"),
    ("a number of the model is baked into a compiled step", f"{TRAIN}.compile.compiled:Compiled.mode",
     "unit/test_train_modes.py", "test_a_compiled_step_follows_a_number_that_is_set_between_steps"),
    ("fresh random numbers fall once for every part", f"{TRAIN}.capture.keeping:repeats",
     "unit/test_train_state_beside.py",
     "test_what_counts_passes_beside_the_model_makes_records_run_one_at_a_time"),
    ("a generator of the script tells the number of passes", f"{TRAIN}.isolation.reach:Reach._near_function",
     "unit/test_train_state_beside.py",
     "test_what_counts_passes_beside_the_model_makes_records_run_one_at_a_time"),
    ("an augmentation counts its calls", "tacit.train.sample.per_record:_leaves_nothing",
     "unit/test_train_state_beside.py",
     "test_an_augmentation_that_keeps_something_runs_one_record_at_a_time_and_keeps_nothing"),
    ("code asks how records lie in memory", f"{TRAIN}.capture.questions:unanswered",
     "unit/test_train_total.py", "test_what_hangs_on_how_many_records_there_are_is_not_told"),
    ("code asks how much memory is in use", f"{TRAIN}.capture.coins:asks_around",
     "unit/test_train_total.py", "test_what_hangs_on_how_many_records_there_are_is_not_told"),
    ("a shape depends on the values of all records", f"{TRAIN}.capture.functions:shaped_by_values",
     "unit/test_train_total.py", "test_what_hangs_on_how_many_records_there_are_is_not_told"),
    ("an augmentation catches what an operation raises", "tacit.train.sample.per_record:together",
     "unit/test_train_total.py",
     "test_a_record_at_which_an_augmentation_catches_something_changes_nothing_for_the_others"),
    ("a result comes from an earlier pass", f"{TRAIN}.capture.watch:Capture.check_own",
     "unit/test_train_total.py", "test_what_code_returns_was_made_in_this_pass"),
    ("code of an autograd function is not watched", f"{TRAIN}.capture.nested:watching",
     "unit/test_train_unseen.py", "test_code_of_an_autograd_function_is_watched"),
    ("the text of a tensor is given in another thread", f"{TRAIN}.capture.nested:_no_text",
     "unit/test_train_unseen.py", "test_the_text_of_all_records_is_given_in_no_thread"),
    ("a function that only C code holds keeps records", f"{TRAIN}.isolation.surroundings:Surroundings._unheld",
     "unit/test_train_unseen.py", "test_what_a_function_encloses_that_only_c_code_holds_is_put_back"),
    ("an operator of others is taken", f"{TRAIN}.capture.functions:stranger",
     "unit/test_train_unseen.py", "test_operators_of_others_run_one_record_at_a_time"),
    ("a record that raises changes how others are rounded", f"{TRAIN}.clipper:Clipper.without_raising",
     "unit/test_train_strangers.py", "test_a_record_at_which_torch_raises_changes_nothing_for_the_others"),
    ("one at a time, an infinite loss counts", f"{TRAIN}.alone:clipped_alone",
     "unit/test_train_strangers.py", "test_a_record_at_which_torch_raises_changes_nothing_for_the_others"),
    ("a record that fails changes how others are rounded", f"{TRAIN}.compile.compiled:Compiled.again",
     "unit/test_train_compiled.py", "test_a_record_that_is_left_out_changes_nothing_for_the_others"),
    ("a record at which a graph raises stops a run", f"{TRAIN}.compile.compiled:Compiled.launched",
     "unit/test_train_compiled.py", "test_a_record_at_which_a_graph_raises_is_left_out"),
    ("coins are baked into a compiled step", f"{TRAIN}.capture.coins:not_baked_in",
     "unit/test_train_parts.py", "test_a_coin_of_python_or_numpy_is_not_compiled"),
    ("torch computes something of all records", f"{TRAIN}.capture.functions:gives_shape",
     "unit/test_train_strangers.py", "test_what_torch_computes_once_for_all_records_is_not_taken"),
    ("a mode around the training sees all records", f"{TRAIN}.capture.onlookers:function_modes",
     "unit/test_train_strangers.py", "test_a_mode_around_the_training_is_given_one_record"),
    ("objects of torch's classes are believed", f"{TRAIN}.capture.onlookers:_believed",
     "unit/test_train_strangers.py", "test_modules_of_torch_that_are_hooks_are_somebodys_own"),
    ("torch reads beside a table", f"{TRAIN}.capture.ranges:Inside", "unit/test_train_strangers.py",
     "test_labels_and_lengths_of_an_alignment_are_looked_at_before_torch_reads_beside_the_table"),
    ("a record goes where another was stopped", f"{TRAIN}.isolation.reach:Reach._forget",
     "unit/test_train_libraries.py", "test_who_was_stopped_before_changes_nothing_for_the_next"),
    ("a stopped record goes on", f"{TRAIN}.isolation.surroundings:Surroundings._watch_again",
     "unit/test_train_libraries.py", "test_a_record_whose_values_lead_to_such_code_is_stopped_before_it_runs"),
    ("a library keeps records in a thread", f"{TRAIN}.isolation.surroundings:Surroundings._traced",
     "unit/test_train_libraries.py", "test_what_a_library_keeps_that_is_called_in_a_thread_is_put_back"),
    ("how many passes there were is seen", f"{TRAIN}.clipper:Clipper._forgetful",
     "unit/test_train_parts.py", "test_what_a_call_leaves_for_the_next_makes_records_run_one_at_a_time"),
    ("a rule for vmap that sees all records", f"{TRAIN}.capture.nested:_without_rules",
     "unit/test_train_parts.py", "test_code_with_a_rule_of_its_own_for_vmap_runs_one_at_a_time"),
    ("an operator with a rule for vmap", f"{TRAIN}.capture.functions:own_vmap_rule",
     "unit/test_train_parts.py", "test_code_with_a_rule_of_its_own_for_vmap_runs_one_at_a_time"),
    ("a batch norm layer mixes its batch", f"{TRAIN}.capture.functions:refuse",
     "unit/test_train_batch_norm.py", "test_mutant_a_layer_that_is_not_put_back_is_refused_by_the_operation"),
    ("inner products cancel", f"{TRAIN}.rounding:inner_error",
     "unit/test_train_contributions.py", "test_inner_products_in_float64_need_their_room_too"),
    ("a squared length is too little", f"{TRAIN}.rules.outer:Outer.norm2",
     "unit/test_train_contributions.py", "test_a_square_by_inner_products_is_never_too_little"),
    ("TF32 rounds factors", f"{TRAIN}.arrays:coarse",
     "unit/test_train_contributions.py", "test_products_in_reduced_precision_count_where_they_are_allowed"),
    ("sums in less than float32", f"{TRAIN}.arrays:full_float32",
     "unit/test_train_contributions.py", "test_sums_are_made_in_full_float32_whatever_the_program_has_set"),
    ("bfloat16 rounds factors", f"{TRAIN}.rules.outer:Outer.slack2",
     "unit/test_train_precision.py", "test_cancelling_positions_need_the_room_for_rounding"),
    ("weights leave no room for rounding", f"{TRAIN}.sums:group_slack",
     "unit/test_train_contributions.py", "test_what_underflows_in_a_square_counts"),
    ("a mixture of terms is written out", f"{TRAIN}.rules.terms:norm2",
     "unit/test_train_contributions.py", "test_a_mixture_that_cancels_needs_room_for_what_writing_it_out_rounds"),
    ("squares underflow", f"{TRAIN}.rounding:LOST",
     "unit/test_train_contributions.py", "test_what_underflows_in_a_square_counts"),
    ("squares overflow", f"{TRAIN}.rules.outer:_in_range",
     "unit/test_train_contributions.py", "test_a_factor_that_float32_cannot_square_counts_as_not_finite"),
    ("long gradients are measured in one sum", f"{TRAIN}.arrays:squares",
     "unit/test_train_contributions.py", "test_long_gradients_are_measured_in_parts"),
    ("a word is looked up very often", f"{TRAIN}.rules.terms:Gather",
     "unit/test_train_contributions.py", "test_a_row_looked_up_very_often_is_added_up_in_float64"),
    ("sums over very many records", f"{TRAIN}.rounding:needs_float64",
     "unit/test_train_contributions.py", "test_sums_over_very_many_records_stay_near_the_exact_ones"),
    ("float64 is not enough", f"{TRAIN}.rounding:borne",
     "unit/test_train_contributions.py", "test_weights_leave_room_for_float64_too"),
    ("a sample larger than expected", "tacit.train.scale.totals:Totals._larger",
     "unit/test_train_contributions.py", "test_a_sample_larger_than_expected_takes_its_own_size"),
    ("experts' rows are told apart", f"{TRAIN}.rules.experts:experts_of",
     "oracle/test_train_models.py", "test_grouped_products_run_with_all_records_at_once"),
    ("padding of an embedding bag counts", f"{TRAIN}.rules.expansions:EXPANSIONS",
     "oracle/test_train_clip_odd.py", "test_exact"),
    ("a compiled step that does not clip", f"{TRAIN}.compile.compiled:Compiled",
     "unit/test_train_compiled.py", "test_a_compiler_that_never_clips_is_refused_where_nothing_needs_it"),
    ("the noise has another scale", "tacit.train.noise.release:Release",
     "statistical/test_train_noise.py", "test_a_step_adds_noise_multiplier_times_clip_norm"),
    ("noise on a grid has another scale", "tacit.train.noise.grid:Grid",
     "statistical/test_train_grid.py", "test_noise_has_the_scale_of_the_bound"),
    ("the noise of the clip norm's count", f"{TRAIN}.adaptive:next_norm",
     "statistical/test_train_adaptive.py",
     "test_one_unit_moves_the_count_by_a_half_and_the_noise_is_so_scaled"),
    ("a step that was broken off leaves its gradient", "tacit.train.noise.release:Release.withdraw",
     "unit/test_train_step.py", "test_a_step_that_breaks_off_leaves_no_gradient_and_no_mode_in_force"),
    ("a step that was broken off is taken again", "tacit.train.step:PrivateStep.check_unbroken",
     "unit/test_train_step.py", "test_a_step_that_breaks_off_is_taken_again_alike_or_not_at_all"),
    ("correlated noise is another", "tacit.train.noise.correlated:Correlated",
     "statistical/test_train_correlated.py", "test_the_encoder_makes_the_noise_white_again"),
    ("samples are drawn at another rate", "tacit.train.sample.draw:Sampler",
     "statistical/test_train_noise.py", "test_every_record_is_taken_at_the_rate"),
    ("one record decides the kind of numbers", "tacit.train.sample.collate:usual_kind",
     "unit/test_train_odd_records.py", "test_an_odd_record_leaves_the_others_alone"),
    ("a tensor that cannot stand beside others", "tacit.train.sample.collate:as_record",
     "unit/test_train_odd_records.py", "test_a_record_whose_numbers_can_be_read_takes_part"),
    ("a record that panics stops a run", "tacit.train.sample.items:Reader._read",
     "unit/test_train_odd_records.py", "test_a_record_that_panics_leaves_the_others_alone"),
    ("one element decides the kind of a column", "tacit.train.sample.columns:as_tensors",
     "unit/test_train_odd_records.py", "test_an_odd_element_of_a_column_leaves_the_others_alone"),
    ("all records reach every loss as a constant", "tacit.train.sample.columns:are_tensors",
     "unit/test_train_odd_records.py", "test_what_has_no_rows_is_no_constant"),
    ("one id merges other users", "tacit.train.sample.users:user_codes",
     "unit/test_train_odd_records.py", "test_one_id_neither_merges_other_users_nor_splits_them"),
    ("autocast around a step", f"{TRAIN}.arrays:ordinary_modes",
     "unit/test_train_contributions.py", "test_modes_around_a_step_change_nothing"),
    ("autocast around a fleet", "tacit.fleet.fleet:Fleet.train",
     "unit/test_fleet_train.py", "test_autocast_around_a_private_fleet_changes_nothing"),
    ("a fleet's positions cancel", "tacit.fleet.certified:of_sums",
     "unit/test_train_contributions.py", "test_fleets_need_their_room_for_positions_that_cancel"),
    ("a fleet's squares underflow", "tacit.fleet.certified:length_of",
     "unit/test_train_contributions.py", "test_fleets_need_their_room_for_squares_that_underflow"),
    ("a fleet's sums in float32", "tacit.fleet.certified:Clip.settled",
     "unit/test_train_contributions.py", "test_a_fleets_sums_that_may_move_too_far_are_made_in_float64"),
    ("a model's rounding hangs on other models", "tacit.fleet.certified:Summing.__call__",
     "unit/test_fleet_total.py", "test_how_one_models_sum_is_rounded_does_not_hang_on_another_model"),
    ("a fleet's model keeps records", "tacit.fleet.stack:AnyStack._kept_apart",
     "property/test_train_mixing.py", "test_one_record_moves_a_fleets_sum_by_at_most_the_clip_norm"),
    ("a fleet's random numbers are known", "tacit.fleet.order:Draws.key", "unit/test_fleet_train.py",
     "test_dropout_in_a_private_fleet_follows_from_its_own_source_and_not_from_a_seed_that_a_script_sets"),
    ("a fleet's model is shown several records", "tacit.fleet.vmap_guard:Apart",
     "unit/test_fleet_train.py", "test_a_fleet_refuses_code_that_torch_shows_several_records"),
    ("a pass goes on with records in another order", "tacit.train.course:Course.take",
     "unit/test_train_sampling.py", "test_a_pass_does_not_go_on_with_records_in_another_order"),
    ("a fleet's record points beyond a table", "tacit.fleet.vmap_guard:Apart.__torch_function__",
     "unit/test_fleet_total.py", "test_an_odd_record_gives_nothing_and_touches_nobody"),
    ("a fleet's label names no output", "tacit.fleet.stack:unknown",
     "unit/test_fleet_total.py", "test_an_odd_record_gives_nothing_and_touches_nobody"),
    ("a fleet's record cannot be read", "tacit.fleet.reading:whatever_they_hold",
     "unit/test_fleet_total.py", "test_an_odd_record_gives_nothing_and_touches_nobody"),
    ("a model of a fleet raises at a record", "tacit.fleet.failing_records:WithoutFailing",
     "unit/test_fleet_total.py", "test_an_odd_record_gives_nothing_and_touches_nobody"),
    ("a fleet's step is repeated with other numbers", "tacit.fleet.failing_records:_Search.run",
     "unit/test_fleet_total.py", "test_an_odd_record_gives_nothing_and_touches_nobody"),
    ("a compiled fleet is compared on private records", "tacit.fleet.device:invented",
     "unit/test_fleet_total.py", "test_a_compiled_step_is_compared_on_made_up_records"),
    ("models of a fleet meet in an optimizer", "tacit.fleet.optimizers:check_elementwise",
     "unit/test_fleet_total.py", "test_an_optimizer_in_which_models_could_meet_is_refused_in_private_training"),
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


def test_every_guard_can_still_be_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The passage that the benchmark replaces is in the sources, once."""
    monkeypatch.syspath_prepend(ROOT.parent / "benchmarks")
    found = importlib.import_module("guards").GUARDS
    sources = {one.file: (ROOT.parent / "src" / one.file).read_text(encoding="utf-8") for one in found.values()}
    assert {what: sources[one.file].count(one.old) for what, one in found.items()} == dict.fromkeys(found, 1)
    assert set(found) == {what for what, *_ in GUARDS}


def test_guards_that_were_taken_away_were_noticed_by_their_tests() -> None:
    rows = json.loads((ROOT.parent / "benchmarks" / "results" / "guards.json").read_text(encoding="utf-8"))["rows"]
    named = {what: f"tests/{file}::{test}" for what, _, file, test in GUARDS}
    assert {what: row["test"] for what, row in rows.items()} == {what: named[what] for what in rows}
    assert all(row["noticed"] for row in rows.values())
    assert len(rows) >= 30
