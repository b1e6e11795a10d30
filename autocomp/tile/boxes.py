"""Shared memory between a role's threads and the engines that read and write it for them (bulk copies, matrix units).

An engine sees what threads wrote, and may overwrite what they read, when each thread has fenced its accesses (PTX: fence.proxy.async) and
threads have met behind the fence: a barrier alone waits for no matrix load under way. A store of the engine reads until its group has been
waited for by the thread that started it; the others know of that when they have met, or when a slot given back behind it is full again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

UNDER_WAY, OVER, KNOWN = range(3)  # of an access: not yet fenced or waited for; that, to who did it; to all threads
MBARRIERS = "mbarriers"  # their memory: no engine is shown it by a fence for data
Key = tuple[str, int, int]  # a buffer or ring, its slot, the box in it


@dataclass
class Use:
    """An access: of threads (`far`: of all roles), or of the engine (a store, which reads)."""

    write: bool
    engine: bool = False
    far: bool = False
    state: int = UNDER_WAY


@dataclass
class Boxes:
    """`groups`: stores that the starting thread has not waited for; `told`: what is known to who finds a ring's slot full again."""

    uses: dict[Key, list[Use]] = field(default_factory=dict)
    groups: list[Use] = field(default_factory=list)
    told: dict[tuple[str, int], list[Use]] = field(default_factory=dict)

    def access(self, key: Key, do: str, far: bool = False) -> str:
        """An access begins (`do`: read | write by threads, store | load by the engine); what is wrong with that, "" if nothing."""
        mine = self.uses.setdefault(key, [])
        mine[:] = [x for x in mine if x.state < KNOWN]
        said, name = "", key[0]
        for x in mine:
            if x.engine and do == "write":
                said = (f"overwrites {name} while a bulk store reads it" if x.state == UNDER_WAY else
                        f"overwrites {name} before all threads know that a bulk store has read it")  # fmt: skip
            elif x.engine and do == "load" and x.state == UNDER_WAY:
                said = f"loads into {name} while a bulk store reads it"
            elif not x.engine and (do == "load" or (do == "store" and x.write)):
                said = self._unseen(do, name, x)
        if do == "store":
            self.groups.append(Use(False, True))
            mine.append(self.groups[-1])
        elif do != "load":
            mine.append(Use(do == "write", far=far))
        return said

    def _unseen(self, do: str, name: str, x: Use) -> str:
        does = f"{do}s {'into ' if do == 'load' else ''}{name} which threads {'write' if x.write else 'read'}"
        return f"{does}, and no fence stands between" if x.state == UNDER_WAY else f"{does}, and they have not met behind the fence"

    def fence(self, box: str = "") -> None:
        """Each thread's accesses come before what engines do from here on; those to one `box`, where it is a fence of its own."""
        for key, uses in self.uses.items():
            for x in uses if box == (key[0] if key[0] == MBARRIERS else "") else ():
                if not x.engine and x.state == UNDER_WAY:
                    x.state = OVER

    def meet(self, far: bool) -> None:
        """All threads know what is over; those of a role alone, of what is theirs."""
        for x in self._all():
            if x.state == OVER and (far or not x.far):
                x.state = KNOWN

    def landed(self, behind: int) -> None:
        """The thread that starts stores waits until at most the last `behind` of them read."""
        done = self.groups[: max(0, len(self.groups) - behind)]
        for x in done:
            x.state = max(x.state, OVER)
        del self.groups[: len(done)]

    def gives_back(self, ring: str, slot: int) -> str:
        """A slot is given back to who overwrites it by loads; what is wrong with that."""
        for key, uses in self.uses.items():
            for x in uses if key[:2] == (ring, slot) else ():
                if x.state < (OVER if x.engine else KNOWN):
                    return f"gives back a slot of {ring} that a bulk store reads" if x.engine else self._unseen("give back", ring, x)
        self.told[ring, slot] = [x for x in self._all() if x.engine and x.state == OVER]
        return ""

    def full_again(self, ring: str, slot: int) -> None:
        for x in self.told.pop((ring, slot), ()):
            x.state = KNOWN

    def unseen(self, name: str, slot: int | None = None) -> str:
        """What a matrix product that reads a buffer (`slot` of a ring) does not see of what threads write; "" for nothing."""
        written = [x for k, uses in self.uses.items() if k[0] == name and slot in (None, k[1]) for x in uses if x.write and x.state < KNOWN]
        return self._unseen("multiplie", name, written[0]) if written else ""

    def _all(self) -> list[Use]:
        return [x for uses in self.uses.values() for x in uses]
