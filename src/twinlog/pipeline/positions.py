"""What is known of positions, given to claims."""

from dataclasses import replace

from twinlog.pipeline.job import Claim
from twinlog.tracking.known import Known


class Positions(Known):
    def known(self, claim: Claim) -> Claim:
        place = claim.place
        return replace(
            claim, cursor=self.cursors.get(place), sync=self.syncs.get(place), mm2_offset=self.mm2.get(place)
        )
