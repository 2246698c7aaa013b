"""Generated rules that change, and wishes about few names in which they meet, against a model that
walks over all rules.

    python -m tests.faults.acl_hunt --decisions 1000000 --seed 1
"""

from __future__ import annotations

import argparse
import sys

from kbroker.acl.acl import AclPattern, Acls
from kbroker.acl.acl_rules import AclRules
from tests.fakes.acls.acl_model import Draw, is_granted, is_granted_somewhere

_CHANGES = 40
_QUESTIONS = 50


def disagreements(seed: int, changes: int = _CHANGES, questions: int = _QUESTIONS) -> list[str]:
    """Differences between rules and model, which are asked after each change of some patterns."""
    draw = Draw(seed)
    super_users = draw.super_users()
    rules, stored = AclRules(super_users), dict[AclPattern, Acls]()
    found: list[str] = []
    for _ in range(changes):
        some = {draw.pattern(): draw.acls() for _ in range(draw.random.randrange(1, 4))}
        rules.replace(some)
        stored = {each: acls for each, acls in {**stored, **some}.items() if acls}
        if {each: rules.acls(each) for each in rules.patterns()} != stored:
            found.append(f"seed {seed}: other rules than {stored}")
        for _ in range(questions):
            asked = draw.question()
            principal, host, operation, resource = asked
            given = rules.is_granted(*asked)
            if given is not is_granted(stored, super_users, asked):
                found.append(f"seed {seed}: {given} for {asked} by {stored}")
            given = rules.is_granted_somewhere(principal, host, operation, resource.type)
            if given is not is_granted_somewhere(stored, super_users, asked):
                found.append(f"seed {seed}: {given} for {asked}, on any, by {stored}")
    return found


def main() -> int:
    """Print differences; the exit code is 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    decisions, differences = 0, 0
    for seed in range(arguments.seed, sys.maxsize):
        for line in disagreements(seed):
            print(line)
            differences += 1
        decisions += 2 * _CHANGES * _QUESTIONS
        if decisions >= arguments.decisions:
            break
    print(f"{decisions:,} decisions, {differences} differences")
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
