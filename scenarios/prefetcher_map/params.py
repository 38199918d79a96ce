"""All that can be tuned in what is asked of prefetchers, each with its unit and why it is what it is."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Params:
    """How prefetchers are asked for.

    Presence of a line
      brought, not_brought: fractions of repetitions. Prefetchers follow rules, so fractions are near 0 or 1; what lies
        between was disturbed, or depends on what the visit doesn't control.
      slack: a fraction of n repetitions must lie beyond a limit by slack / sqrt(n), 1.4 standard errors at most, so
        that few repetitions only answer what is plain.
      first, again, most: repetitions per line at first, for lines left unclear, and at most where neighbouring levels
        must be distinguished on a coarse clock.
      control_part: a control of the lines' state without the visit's accesses takes one of so many repetitions.
      plain: a line that comes in less than this fraction comes nearly never; what noise alone takes is less.
      clear: logarithm of a ratio of likelihoods of two levels, about 1 in 8,000: a map asks hundreds of questions.
      one_level: quantile of a level's loads, the others being stalls.
      chance: standard errors by which a difference must clear a bound that it only has to confirm.
    Effort
      surveys: least and most surveys; a further one while something was found that is not sure yet.
      operations: of a survey, after which what stays unclear is left so: counted, not timed, as what is asked must not
        depend on how busy the computer is, or no recording could be inferred again.
      reference_samples: loads per level that serve as references.
      pushed_out: fraction of the way from level 1 to memory below which a level behind the first one lies.
    Runs
      gaps: lines between accesses of a run, in turn: never equal in a row, so no stride, and further than a batch.
      longest_run: accesses of a run with gaps, as many as a page of 64 lines has room for.
      dense_run: accesses of a run of neighbouring lines, as long as room ahead is left.
      near, far: lines ahead of such a run that say it is led: not the next one, which much else brings.
      lead_accesses, lead_from: accesses of the run whose lead is reported and the page's line where it begins.
      repeats: hits on one line that draw what a stream still fetches without a new line.
      held_accesses: hits on the lines behind it then, as many as the largest batch that is compared has lines.
      drawn: lines ahead of a run, first and last, that hits on the next line draw from a stream: nearer than the gaps.
      stride_run: accesses at equal distances, as many as are asked for, and strides ahead of them that are.
      same_ip: an instruction address that accesses share, unlike those of a visit's other ones in its low six bits.
      short_stride: lines apart that show what follows short strides alone, and leave more room to run ahead.
      access_bytes: of one load, the smallest stride that is asked for.
      bursts: loads, then prefetches, that may use up level 1's miss entries: some of the counts that CPUs have.
      most_next: next lines that are asked for, more than next-line prefetchers are known to fetch.
      most_repeated: accesses to one line after which a next-line prefetcher is no longer waited for.
    Tables
      most_entries: of a table that is asked for, and pages that train a region prefetcher, more than are watched at
        once: what a block of pages has room for.
      training_rounds: of that training, as some want the same footprint twice.
    Traversals
      spared, lost, lost_lines: fractions of a traversal's lines that may still be in level 1 or no longer in level 2
        (a table of eight streams then still holds half), and below how many lost lines none is.
      more_pages: evictor lines per page offset that are tried where the usual number stays in level 1.
      fewer_by, least_pages: the same where some don't stay in level 2: so many fewer each time, down to more than a
        first cache of eight ways has.
      traversal_lines: lines of a traversal that are asked for."""

    brought: float = 0.65
    not_brought: float = 0.3
    slack: float = 0.7
    first: int = 12
    again: int = 60
    most: int = 1920
    control_part: int = 3
    plain: float = 0.15
    clear: float = 9.0
    one_level: float = 0.98
    chance: float = 1.0

    surveys: tuple[int, int] = (2, 4)
    operations: int = 60_000_000
    reference_samples: int = 360
    pushed_out: float = 0.7

    gaps: tuple[int, int] = (6, 7)
    longest_run: int = 7
    dense_run: int = 10
    near: int = 2
    far: int = 5
    lead_accesses: int = 16
    lead_from: int = 4
    repeats: int = 16
    held_accesses: int = 8
    drawn: tuple[int, int] = (3, 5)
    stride_run: int = 8
    same_ip: int = 0x152B
    short_stride: int = 3
    access_bytes: int = 8
    bursts: tuple[int, ...] = (16, 32, 64, 128)
    most_next: int = 10
    most_repeated: int = 6

    most_entries: int = 100
    training_rounds: int = 4

    spared: float = 0.4
    lost: float = 0.035
    lost_lines: float = 0.5
    more_pages: tuple[int, ...] = (30, 40)
    fewer_by: int = 3
    least_pages: int = 9
    traversal_lines: int = 16

    @property
    def stride(self) -> int:
        """Lines apart, as far as the wider gap: further than batches of streams reach."""
        return max(self.gaps)

    def quicker(self) -> Params:
        """With --fast: a third of the operations, three surveys at most."""
        return replace(self, operations=self.operations // 3, surveys=(2, 3))
