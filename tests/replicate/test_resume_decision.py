"""The resume decision, and the comparison of two logs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.model import OffsetPair
from twinlog.replicate.log_matching import Match, newest_common
from twinlog.replicate.resume_decision import (
    CannotResume,
    CountRecords,
    Facts,
    LogProblem,
    Producer,
    StartAt,
    Tail,
    clamp_to_log,
    decide,
    is_past_log_end,
)


def _facts(*offset_pairs: tuple[int, int], **changed: Any) -> Facts:
    usual: dict[str, Any] = {
        "mm2_position": None, "source_start": 0, "source_end": 100, "target_start": 0, "target_end": 50,
        "reset": "earliest",
    }  # fmt: skip
    return Facts(offset_pairs=[OffsetPair(*each) for each in offset_pairs], **{**usual, **changed})


class TestDecision:
    def test_the_target_ends_at_the_newest_offset_pair(self) -> None:
        assert decide(_facts((10, 8), (60, 50))) == StartAt(60)

    def test_the_target_has_grown_since(self) -> None:
        assert decide(_facts((10, 8), (40, 30))) == CountRecords(OffsetPair(40, 30))

    def test_the_target_lost_records_and_an_older_offset_pair_is_valid(self) -> None:
        assert decide(_facts((40, 30), (70, 60))) == CountRecords(OffsetPair(40, 30))

    def test_the_target_lost_records_and_no_offset_pair_is_old_enough(self) -> None:
        assert decide(_facts((70, 60), (80, 70))) == CountRecords(OffsetPair(70, 60), missing=10)

    def test_an_empty_remote_topic_gets_everything_again(self) -> None:
        found = decide(_facts((70, 60), target_end=0, source_start=5))
        assert found == StartAt(5, LogProblem.TARGET_LOST)

    def test_a_remote_topic_of_another_id_gets_everything_again_whatever_it_holds(self) -> None:
        assert decide(_facts((60, 50), remote_recreated=True)) == StartAt(0, LogProblem.TARGET_LOST)
        assert decide(_facts(target_end=0, remote_recreated=True)) == StartAt(0)

    def test_a_recreated_remote_topic_continues_as_with_mm2_without_refill(self) -> None:
        assert decide(_facts((60, 50), remote_recreated=True, refill=False)) == StartAt(60, LogProblem.TARGET_LOST)
        found = decide(_facts((60, 50), target_end=0, refill=False, mm2_position=75))
        assert found == StartAt(75, LogProblem.TARGET_LOST)

    def test_a_source_topic_of_another_id_begins_at_its_start_whatever_is_known_of_the_old_one(self) -> None:
        found = decide(_facts((60, 50), recreated=True, source_start=3, mm2_position=60))
        assert found == StartAt(3, LogProblem.RECREATED)

    @pytest.mark.parametrize("position", [1, 42])
    def test_where_mm2_stopped(self, position: int) -> None:
        assert decide(_facts(mm2_position=position)) == StartAt(position)

    def test_an_offset_pair_takes_precedence_over_mm2s_offset(self) -> None:
        assert decide(_facts((60, 50), mm2_position=81)) == StartAt(60)

    @pytest.mark.parametrize(("reset", "position"), [("earliest", 7), ("latest", 100)])
    def test_nothing_is_known(self, reset: str, position: int) -> None:
        assert decide(_facts(reset=reset, source_start=7, target_end=0)) == StartAt(position)

    def test_nothing_is_known_and_the_remote_topic_is_not_empty(self) -> None:
        assert decide(_facts(target_start=20)) == StartAt(0, LogProblem.UNKNOWN_RECORDS, 30)

    def test_foreign_records_are_expected_where_sources_are_merged(self) -> None:
        assert decide(_facts(target_start=20, expects_foreign=True)) == StartAt(0)

    def test_nothing_is_known_and_nothing_may_be_guessed(self) -> None:
        found = decide(_facts(reset="none", target_end=0))
        assert isinstance(found, CannotResume)
        assert "auto.offset.reset" in found.reason


def _tail(source: int, target: int, sequence: int, epoch: int = 0) -> Tail:
    return Tail(source, target, Producer(7, epoch, sequence))


def _remembered(sequence: int, epoch: int = 0, number: int = 7) -> Producer:
    return Producer(number, epoch, sequence)


class TestSequences:
    """The target ends at 50."""

    def test_nothing_was_written_since(self) -> None:
        assert decide(_facts((60, 50), tail=_tail(60, 50, 9), remembered=_remembered(9))) == StartAt(60)

    def test_all_that_was_written_since_is_ours(self) -> None:
        found = decide(_facts((40, 30), tail=_tail(40, 30, 9), remembered=_remembered(29)))
        assert found == CountRecords(OffsetPair(40, 30), count=20)

    def test_a_newer_offset_pair_shortens_the_count(self) -> None:
        found = decide(_facts((40, 30), (57, 47), tail=_tail(40, 30, 9), remembered=_remembered(29)))
        assert found == CountRecords(OffsetPair(57, 47), count=3)

    def test_sequence_numbers_wrap_around(self) -> None:
        found = decide(_facts((40, 30), tail=_tail(40, 30, 2**31 - 5), remembered=_remembered(15)))
        assert found == CountRecords(OffsetPair(40, 30), count=20)

    def test_others_wrote_as_well(self) -> None:
        found = decide(_facts((40, 30), tail=_tail(40, 30, 9), remembered=_remembered(14)))
        assert found == CountRecords(OffsetPair(40, 30), count=5, others=15)

    def test_mm2_continued_since(self) -> None:
        """Its syncs are offset pairs, too: its records must not count as foreign and be copied again."""
        found = decide(_facts((40, 30), (57, 47), tail=_tail(40, 30, 9), remembered=_remembered(9)))
        assert found == CountRecords(OffsetPair(57, 47))

    def test_ours_are_gone_and_others_wrote_past_their_end(self) -> None:
        found = decide(_facts((60, 50), tail=_tail(60, 50, 90), remembered=_remembered(50)))
        assert found == CountRecords(OffsetPair(60, 50), missing=40)

    def test_records_are_missing_in_between(self) -> None:
        found = decide(_facts((40, 30), tail=_tail(40, 30, 9), remembered=_remembered(39)))
        assert isinstance(found, CannotResume)
        assert "missing" in found.reason

    def test_nothing_of_a_new_epoch_arrived(self) -> None:
        found = decide(_facts((60, 50), tail=_tail(60, 50, 0, epoch=3), remembered=_remembered(99, epoch=2)))
        assert found == StartAt(60)

    def test_another_run_began_a_newer_epoch(self) -> None:
        found = decide(_facts((40, 30), tail=_tail(40, 30, 9), remembered=_remembered(2, epoch=1)))
        assert found == CountRecords(OffsetPair(40, 30))

    def test_a_producer_that_is_forgotten_proves_nothing(self) -> None:
        tail = _tail(60, 50, 9)
        assert decide(_facts((60, 50), tail=tail)) == CountRecords(OffsetPair(60, 50), check=tail)

    def test_another_producer_proves_nothing(self) -> None:
        found = decide(_facts((60, 50), tail=_tail(60, 50, 9), remembered=_remembered(9, number=8)))
        assert found == StartAt(60)

    def test_a_discontinuity_takes_a_new_epoch(self) -> None:
        assert Producer(7, 3, 99).with_new_epoch() == Producer(7, 4, 0)
        assert Producer(7, 2**15 - 1, 99).with_new_epoch() == Producer(7, 2**15 - 1, 99), "no epoch left"


def test_is_past_log_end() -> None:
    assert is_past_log_end(StartAt(101), _facts(source_log_end=100))
    assert not is_past_log_end(StartAt(100), _facts(source_log_end=100))
    assert not is_past_log_end(StartAt(101), _facts()), "unknown end"


class TestClampToLog:
    def test_a_position_that_is_there(self) -> None:
        assert clamp_to_log(StartAt(50), _facts(source_start=50)) == StartAt(50)

    def test_records_deleted_before_they_were_copied_are_counted(self) -> None:
        assert clamp_to_log(StartAt(50), _facts(source_start=80)) == StartAt(80, LogProblem.LOST, 30)

    def test_what_the_target_lost_can_be_gone_at_the_source_as_well(self) -> None:
        assert clamp_to_log(StartAt(50, LogProblem.TARGET_LOST, 9), _facts(source_start=80)) == StartAt(
            80, LogProblem.LOST, 30
        )

    def test_a_truncated_log_resumes_at_the_truncation(self) -> None:
        assert clamp_to_log(StartAt(90), _facts(truncated_at=70)) == StartAt(70, LogProblem.TRUNCATED, 20)

    def test_a_log_truncated_after_the_position_has_lost_nothing_copied(self) -> None:
        """What was fetched but not yet stored must be fetched again, from where the target really is."""
        assert clamp_to_log(StartAt(60), _facts(truncated_at=70)) == StartAt(60)

    def test_a_recreated_topic_was_not_truncated(self) -> None:
        again = StartAt(0, LogProblem.RECREATED)
        assert clamp_to_log(again, _facts(truncated_at=70, recreated=True)) == again


class TestMatching:
    def test_nothing_was_taken_away(self) -> None:
        assert newest_common("abcd", "abcdef") == Match(3, 0, 0)

    def test_compaction_removed_some_from_the_source(self) -> None:
        assert newest_common("abcdefg", "bdfhi") == Match(2, 1, 0)

    def test_some_were_skipped(self) -> None:
        assert newest_common("abd", "abcdef") == Match(3, 0, 0)

    def test_nothing_in_common(self) -> None:
        assert newest_common("abc", "xyz") is None
        assert newest_common("", "xyz") is None
        assert newest_common("abc", "") is None

    def test_of_identical_records_the_preceding_ones_decide(self) -> None:
        assert newest_common("axbx", "axbxcx") == Match(3, 0, 0)

    def test_of_indistinguishable_records_the_oldest_is_chosen(self) -> None:
        """Copying twice is better than not copying; the maximum number of duplicates is known."""
        assert newest_common("x", "xxx") == Match(0, 0, 2)
        assert newest_common("x" * 100, "x" * 200) == Match(0, 0, 199), "also with few records before it"

    def test_many_identical_records_are_fast(self) -> None:
        assert newest_common("x" * 50_000, "x" * 50_000) == Match(0, 0, 49_999)

    @given(st.lists(st.integers(), unique=True, max_size=30), st.data())
    def test_unique_records_are_always_found(self, log: list[int], data: st.DataObject) -> None:
        copied = data.draw(st.integers(0, len(log)))
        kept = [number for at, number in enumerate(log) if at >= copied or data.draw(st.booleans())]
        found = newest_common(log[:copied], kept)
        position = 0 if found is None else found.at + 1
        assert kept[position:] == log[copied:]
