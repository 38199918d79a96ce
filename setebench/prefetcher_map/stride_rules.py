"""By what rules a stride prefetcher runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from setebench.prefetcher_map.instruction_bits import bits_that_matter
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.strides import SAME, Stride
from setebench.prefetcher_map.table_size import bisect, others_first
from setebench.prefetcher_map.visit import PAGE_BYTES, Access, Visit, fresh

MOST_ACCESSES, MOST_ENTRIES, MOST_AHEAD = 8, 60, 8
ACCESS_BYTES = 8
REACH_STRIDES, SHORT_REACH_STRIDES = (3, 5), (2, 3)
"""Lines apart; what streams bring beside reaches as many lines, not as many strides, at each."""


class Rules:
    """Questions about one stride prefetcher of level 1 that has been found."""

    def __init__(self, lab: Laboratory, found: Stride) -> None:
        self.lab, self.found = lab, found
        self.trigger = 0
        self.fills_l1 = False

    def at(self, places: list[int], ips: list[int] | None = None) -> Visit:
        """Accesses to these bytes of the page, by one instruction or by those given."""
        size = self.lab.line_size
        chosen = [SAME] * len(places) if ips is None else ips
        steps = tuple(Access(place, ip=ip) for place, ip in zip(places, chosen, strict=True))
        inside = {place // size for place in places if 0 <= place < PAGE_BYTES}
        return Visit(steps, warm=tuple(sorted(inside)) if self.found.warm else ())

    def run(self, count: int, stride: int, start: int = 3, ahead: int = 1) -> tuple[Visit, int]:
        """`count` accesses `stride` lines apart, and the line `ahead` strides behind the last."""
        first = start if stride > 0 else self.lab.page_lines - 1 - start
        lines = [first + stride * number for number in range(count)]
        return self.at([line * self.lab.line_size for line in lines]), lines[-1] + ahead * stride

    def brings(self, visit: Visit, target: int) -> bool | None:
        """Whether the visit brings the target, to level 1 if its lines go there: level 2 may bring
        lines further ahead on level 1's requests."""
        return self.lab.in_l1(visit, target) if self.fills_l1 else self.lab.brings(visit, target)

    def followed(self, visit: Visit, target: int) -> bool | None:
        """Whether the visit brings the target, and not by as many instructions, where one instruction is followed."""
        told = self.brings(visit, target)
        if not told:
            return told
        others = replace(visit, steps=tuple(replace(access, ip=None) for access in visit.steps))
        return True if self.brings(others, target) is False else None

    def find_trigger(self, sign: int) -> int | None:
        """Accesses before the first prefetch. Some count hits of level 1 only now and then, so misses are asked as well
        (and alone from then on, where they need fewer)."""
        hits = self._shortest(lambda count: self.brings(*self.run(count, sign * self.found.stride)))
        if not self.found.warm:
            return hits
        self.found.warm = False
        misses = self._shortest(lambda count: self.followed(*self.run(count, sign * self.found.stride)))
        self.found.warm = misses is None or (hits is not None and hits <= misses)
        return hits if self.found.warm else misses

    @staticmethod
    def _shortest(works: Callable[[int], bool | None]) -> int | None:
        for count in range(2, MOST_ACCESSES + 1):
            told = works(count)
            if told is None or told:
                return count if told else None
        return None

    def ahead(self, count: int, stride: int) -> int | None:
        """How many strides ahead lines are there after `count` accesses. None where those beside the edge come now and
        then: some CPUs bring lines to level 1, or only to level 2, as they find room."""
        for number in range(1, MOST_AHEAD + 1):
            visit, target = self.run(count, stride, start=1, ahead=number)
            told = self.brings(visit, target) if 0 <= target < self.lab.page_lines else None
            if told is None:
                return None
            if not told:
                return number - 1 if self._ends_plainly(visit, target, stride, number) else None
        return None

    def _ends_plainly(self, visit: Visit, target: int, stride: int, number: int) -> bool:
        further = [target] if not 0 <= target + stride < self.lab.page_lines else [target, target + stride]
        nearest = [target - stride] if number > 1 else []
        asked = [*((line, True) for line in nearest), *((line, False) for line in further)]
        return all(self.lab.plainly(visit, line, self.fills_l1) is there for line, there in asked)

    def reach(self) -> tuple[int | None, int | None]:
        """(strides that the first triggering access brings, at two distances alike; strides ahead after many accesses,
        where the former are known)."""
        sign = -1 if self.found.down else 1
        strides = REACH_STRIDES if self.found.stride >= max(REACH_STRIDES) else SHORT_REACH_STRIDES
        firsts = {self.ahead(self.trigger, stride * sign) for stride in strides}
        first = firsts.pop() if len(firsts) == 1 else None
        if first is None:
            return None, None
        later = [self.ahead(self.trigger + more, 3 * sign) for more in (5, 6, 7)]
        settled = later[-1] if len(set(later)) == 1 else None
        return first, settled

    def bytes_apart(self, stride: int, down: bool = False) -> bool | None:
        """Whether a stride of so many bytes is followed: the line of the next access, unlike with many instructions."""
        size, count = self.lab.line_size, self.trigger
        last = self._last_place(stride)
        places = [last - stride * (count - 1 - number) for number in range(count)]
        if any(place % size > size - ACCESS_BYTES for place in places):
            return None
        following = last + stride
        if down:  # the same seen from the page's end
            places = [PAGE_BYTES - ACCESS_BYTES - place for place in places]
            following = PAGE_BYTES - ACCESS_BYTES - following
        target = following // size
        if self.lab.brings(self.at(places, [fresh(number) for number in range(count)]), target) is not False:
            return None
        return self.brings(self.at(places), target)

    def _last_place(self, stride: int) -> int:
        """Byte of the last access of a run: amid the page where it fits, and so near to its line's end that the next
        access is in another line."""
        size, span = self.lab.line_size, stride * self.trigger
        last = 0
        if span <= PAGE_BYTES - 2 * size:
            last = PAGE_BYTES // 2 + span // 2 // size * size - stride
        elif stride < PAGE_BYTES:
            last = ACCESS_BYTES
        last = last // size * size
        if stride < size:
            return last + (size - ACCESS_BYTES if stride % ACCESS_BYTES == 0 else size - stride)
        if size < stride < size + ACCESS_BYTES:  # so far that no access before it crosses into another line
            return last + (stride - size) * self.trigger
        return last

    def largest(self, in_page: bool) -> tuple[int, bool] | None:
        """(largest stride followed, whether a larger one was seen not to be), in bytes, in steps of a line. `in_page`:
        runs are only followed within a page, so larger strides can't be asked."""
        size = self.lab.line_size
        low, high = self.found.stride, PAGE_BYTES // size - 1
        if in_page:
            high = (PAGE_BYTES - 2 * size) // self.trigger // size
        if self.bytes_apart(low * size) is not True:
            return None
        if self.bytes_apart(high * size):
            return high * size, False
        while high - low > 1:
            middle = (low + high) // 2
            told = self.bytes_apart(middle * size)
            if told is None:
                return None
            low, high = (middle, high) if told else (low, middle)
        return low * size, True

    def smallest(self, down: bool) -> tuple[int, int] | None:
        """(least, largest) bytes that the smallest stride followed may have, asked upwards or downwards: what brings
        next lines disturbs upwards alone."""
        size = self.lab.line_size
        strides = (8, 16, 24, size // 2, size // 2 + 8, size - 8, size, size + 8)
        known = [(stride, self.bytes_apart(stride, down)) for stride in strides]
        if any(told is None for _, told in known):
            return None
        followed = [stride for stride, told in known if told]
        if not followed or any(not told for stride, told in known if stride > followed[0]):
            return None
        not_followed = [stride for stride, told in known if not told]
        if not not_followed:
            return 1, followed[0]
        low, high = not_followed[-1], followed[0]
        while high - low > 1:
            middle = (low + high) // 2
            told = self.bytes_apart(middle, down)
            if told is None:
                return None
            low, high = (low, middle) if told else (middle, high)
        return high, high

    def indexed_by(self) -> str | None:
        """Whether a run goes on into the next page, and with other instructions."""
        size, count, stride = self.lab.line_size, self.trigger, self.found.stride
        # the last access lies in the next page, so that nothing has to be fetched across the boundary
        last = self.lab.page_lines + min(4, stride - 1)
        lines = [last - stride * (count - 1 - number) for number in range(count)]
        target = last + stride
        if self.found.down:  # the same seen from the second page's end: a run upwards would not be followed anyway
            lines = [2 * self.lab.page_lines - 1 - line for line in lines]
            target = 2 * self.lab.page_lines - 1 - target
        steps = tuple(Access(line * size, ip=SAME) for line in lines)
        warm = tuple(sorted(lines)) if self.found.warm else ()
        visit = Visit(steps, warm=warm, window=(0, 2 * self.lab.page_lines))
        told = self.lab.brings(visit, target)
        return None if told is None else ("ip" if told else "ip+page")

    def ip_bits(self) -> tuple[int, ...] | None:
        """Bits of the instruction address that matter: those that, changed for the last access, end the run."""
        return bits_that_matter(SAME, self._with_last_ip)

    def _with_last_ip(self, ip: int) -> bool | None:
        visit, target = self.run(self.trigger, self.found.stride if not self.found.down else -self.found.stride)
        places = [access.at for access in visit.steps]
        return self.lab.brings(self.at(places, [SAME] * (self.trigger - 1) + [ip]), target)

    def entries(self) -> int | None:
        """Runs remembered at once, of as many instructions: the first is taken up again after the others."""
        return bisect(self._remembered, MOST_ENTRIES)

    def _remembered(self, runs: int) -> bool | None:
        size, stride = self.lab.line_size, self.found.stride * (-1 if self.found.down else 1)
        first = 3 if stride > 0 else self.lab.page_lines - 4
        lines = [first + stride * number for number in range(self.trigger)]
        steps = []
        for run in range(runs):
            page = run if run else 0
            steps += [Access(line * size, ip=fresh(run), page=page) for line in lines[:-1]]
        steps.append(Access(lines[-1] * size, ip=fresh(0)))
        before = others_first(runs, lines[0] * size)
        return self.brings(Visit(tuple(steps), lessons=before), lines[-1] + stride)

    def crosses(self, lab: Laboratory) -> bool | None:
        """Whether a run's next line is fetched where it lies in the next page."""
        count, stride = self.trigger + 1, self.found.stride
        last = lab.page_lines - min(3, stride)
        lines = [last - stride * (count - 1 - number) for number in range(count)]
        target = last + stride
        if self.found.down:  # the same seen from the second page's end
            lines = [2 * lab.page_lines - 1 - line for line in lines]
            target = 2 * lab.page_lines - 1 - target
        steps = tuple(Access(line * lab.line_size, ip=SAME) for line in lines)
        missing = Visit(steps, window=(0, 2 * lab.page_lines))
        if not self.found.warm:
            return lab.brings(missing, target)
        told = lab.brings(replace(missing, warm=tuple(sorted(lines))), target)
        # what hits never bring, misses may: of this prefetcher, or of another level's, which isn't told here
        return told if told is not False or lab.brings(missing, target) is False else None
