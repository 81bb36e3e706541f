"""The decision where a partition goes on, and where two logs part: facts in, an answer out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.model import Anchor
from twinlog.tracking.matching import Match, newest_common
from twinlog.tracking.positions import Facts, Start, Stuck, Trouble, Walk, decide, within


def _facts(*anchors: tuple[int, int], **changed: Any) -> Facts:
    usual: dict[str, Any] = {
        "mm2_offset": None, "source_start": 0, "source_end": 100, "target_start": 0, "target_end": 50,
        "reset": "earliest",
    }  # fmt: skip
    return Facts(anchors=[Anchor(*each) for each in anchors], **{**usual, **changed})


class TestDecision:
    def test_the_target_ends_where_the_newest_anchor_is(self) -> None:
        assert decide(_facts((10, 8), (60, 50))) == Start(60)

    def test_the_target_has_grown_since(self) -> None:
        assert decide(_facts((10, 8), (40, 30))) == Walk(Anchor(40, 30))

    def test_the_target_lost_records_and_an_older_anchor_still_holds(self) -> None:
        assert decide(_facts((40, 30), (70, 60))) == Walk(Anchor(40, 30))

    def test_the_target_lost_records_and_no_anchor_is_old_enough(self) -> None:
        assert decide(_facts((70, 60), (80, 70))) == Walk(Anchor(70, 60), back=True)

    def test_an_empty_remote_topic_gets_everything_again(self) -> None:
        found = decide(_facts((70, 60), target_end=0, source_start=5))
        assert found == Start(5, Trouble.TARGET_LOST)

    def test_a_remote_topic_of_another_id_gets_everything_again_whatever_it_holds(self) -> None:
        assert decide(_facts((60, 50), remote_recreated=True)) == Start(0, Trouble.TARGET_LOST)
        assert decide(_facts(target_end=0, remote_recreated=True)) == Start(0)

    def test_a_source_topic_of_another_id_begins_at_its_start_whatever_is_known_of_the_old_one(self) -> None:
        found = decide(_facts((60, 50), recreated=True, source_start=3, mm2_offset=59))
        assert found == Start(3, Trouble.RECREATED)

    @pytest.mark.parametrize(("offset", "position"), [(0, 1), (41, 42)])
    def test_where_mm2_stopped(self, offset: int, position: int) -> None:
        assert decide(_facts(mm2_offset=offset)) == Start(position)

    def test_an_anchor_says_more_than_mm2s_offset(self) -> None:
        assert decide(_facts((60, 50), mm2_offset=80)) == Start(60)

    @pytest.mark.parametrize(("reset", "position"), [("earliest", 7), ("latest", 100)])
    def test_nothing_is_known(self, reset: str, position: int) -> None:
        assert decide(_facts(reset=reset, source_start=7, target_end=0)) == Start(position)

    def test_nothing_is_known_and_the_remote_topic_is_not_empty(self) -> None:
        assert decide(_facts(target_start=20)) == Start(0, Trouble.UNKNOWN_RECORDS, 30)

    def test_records_of_others_belong_there_where_sources_are_merged(self) -> None:
        assert decide(_facts(target_start=20, merges=True)) == Start(0)

    def test_nothing_is_known_and_nothing_may_be_guessed(self) -> None:
        found = decide(_facts(reset="none", target_end=0))
        assert isinstance(found, Stuck)
        assert "auto.offset.reset" in found.reason


class TestWithin:
    def test_a_position_that_is_there(self) -> None:
        assert within(Start(50), _facts(source_start=50)) == Start(50)

    def test_what_is_gone_before_it_was_copied_is_counted(self) -> None:
        assert within(Start(50), _facts(source_start=80)) == Start(80, Trouble.LOST, 30)

    def test_what_the_target_lost_can_be_gone_at_the_source_as_well(self) -> None:
        assert within(Start(50, Trouble.TARGET_LOST, 9), _facts(source_start=80)) == Start(80, Trouble.LOST, 30)

    def test_a_log_that_was_cut_off_goes_on_where_it_was(self) -> None:
        assert within(Start(90), _facts(truncated_at=70)) == Start(70, Trouble.TRUNCATED, 20)

    def test_a_log_that_was_cut_off_behind_what_was_copied_has_lost_nothing_of_it(self) -> None:
        """What was fetched but not yet stored must be fetched again, from where the target really is."""
        assert within(Start(60), _facts(truncated_at=70)) == Start(60)

    def test_a_topic_that_was_made_again_was_not_cut_off(self) -> None:
        again = Start(0, Trouble.RECREATED)
        assert within(again, _facts(truncated_at=70, recreated=True)) == again


class TestMatching:
    def test_nothing_was_taken_away(self) -> None:
        assert newest_common("abcd", "abcdef") == Match(3, 0, 0)

    def test_a_cleaner_took_some_from_the_source(self) -> None:
        assert newest_common("abcdefg", "bdfhi") == Match(2, 1, 0)

    def test_some_were_left_out_on_the_way(self) -> None:
        assert newest_common("abd", "abcdef") == Match(3, 0, 0)

    def test_nothing_in_common(self) -> None:
        assert newest_common("abc", "xyz") is None
        assert newest_common("", "xyz") is None
        assert newest_common("abc", "") is None

    def test_the_neighbours_tell_which_of_those_that_are_alike_is_meant(self) -> None:
        assert newest_common("axbx", "axbxcx") == Match(3, 0, 0)

    def test_of_those_that_cannot_be_told_apart_the_oldest_is_meant(self) -> None:
        """To copy again is better than not to copy; how many that may be is known."""
        assert newest_common("x", "xxx") == Match(0, 0, 2)

    @given(st.lists(st.integers(), unique=True, max_size=30), st.data())
    def test_unique_records_are_always_found(self, log: list[int], data: st.DataObject) -> None:
        copied = data.draw(st.integers(0, len(log)))
        kept = [number for at, number in enumerate(log) if at >= copied or data.draw(st.booleans())]
        found = newest_common(log[:copied], kept)
        position = 0 if found is None else found.at + 1
        assert kept[position:] == log[copied:]
