"""What this page can and cannot say to the questions of a data-protection impact assessment.

The questions are put in our words after the sources named beside them; none is quoted, and none is answered for the
reader. What a page of numbers cannot know is left to a person, and the row says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .subject import Subject

ICO = "ICO, Guidance on AI and data protection: security and data minimisation"
EDPB = "EDPB, Opinion 28/2024 on AI models"
NIST = "NIST SP 800-226, Evaluating differential privacy guarantees"


@dataclass(frozen=True)
class Question:
    """A question, what the page says to it, and what remains for a person."""

    source: str
    question: str
    answer: str
    remains: str


def questions(subjects: Sequence[Subject], *, public: bool) -> list[Question]:
    """All questions, answered from what the evidence holds."""
    return [*_ico(subjects, public), *_edpb(subjects, public), *_nist(subjects, public)]


def _ico(subjects: Sequence[Subject], public: bool) -> list[Question]:
    return [
        Question(
            ICO,
            "Which privacy attacks apply to the model, and were they tried?",
            f"Membership inference: {_attacked(subjects, public)}. Attacks that were not run are not on this page.",
            "Judge model inversion, attribute inference and extraction separately, or say why they do not apply.",
        ),
        Question(
            ICO,
            "Does an attacker need the model itself, or only its answers?",
            "The claim card says what is released and what the attacker sees." if _threat(subjects) else "Not stated.",
            "Check that this is how the model is really served, and who else can reach it.",
        ),
        Question(
            ICO,
            "What reduces the risk, and what risk remains?",
            f"{_protected(subjects)} What remains is the finding at the top of this page.",
            "Weigh the remaining risk against the purpose; accept, reduce or stop.",
        ),
    ]


def _edpb(subjects: Sequence[Subject], public: bool) -> list[Question]:
    return [
        Question(
            EDPB,
            "How likely is it that personal data can be extracted from the model, or obtained by asking it?",
            "Not measured as such: membership inference is a weaker aim than extraction. "
            f"{_bounded(subjects)} The page does not turn epsilon into a likelihood.",
            "Whether the likelihood is insignificant is a judgement of the whole case, made by a person.",
        ),
        Question(
            EDPB,
            "Does that hold for each person, not on average?",
            f"{_each(subjects)} Measured rates are averages over the tested records and can hide exposed people.",
            "Ask for per-record figures where single people may be much more exposed than others.",
        ),
        Question(
            EDPB,
            "Were all means considered that are reasonably likely to be used?",
            f"Tried: {_means(subjects, public)}. {_any_means(subjects)}",
            "Revisit when stronger attacks are published or access to the model changes.",
        ),
        Question(
            EDPB,
            "Is it documented so that an authority can check it?",
            "The evidence file holds every number of this page; its bounds can be recomputed from stored counts and "
            "events without the data.",
            "File the evidence with the page, and the training code and its version with both.",
        ),
    ]


def _nist(subjects: Sequence[Subject], public: bool) -> list[Question]:
    return [
        Question(
            NIST,
            "What is promised, to whom: epsilon, delta and the unit of privacy?",
            _promised(subjects),
            "Check that the unit is a person where people own several records.",
        ),
        Question(
            NIST,
            "Is the algorithm what the proof is about, and is it implemented correctly?",
            _audited(subjects),
            "Review the code path of the noise and the sampling; an audit finds errors, it does not exclude them.",
        ),
        Question(
            NIST,
            "What else was released from the same data, and was tuning counted?",
            "Only what the claim card lists was counted in.",
            "Add up every other release from these data, earlier and later ones too.",
        ),
        Question(
            NIST,
            "Is the result still useful, and for whom?",
            "Left out of the public version." if public else _useful(subjects),
            "Look at small groups: noise and clipping cost them most. This page does not measure bias.",
        ),
        Question(
            NIST,
            "How are the data collected, stored and accessed?",
            "Outside of this page: differential privacy protects releases, not the stored data, logs or checkpoints.",
            "Describe consent or legal basis, access control, retention and deletion.",
        ),
    ]


def _where_proven(subjects: Sequence[Subject], proven: str, otherwise: str) -> str:
    """What holds with a proof, what without, or both where the page holds models of both kinds."""
    kinds = {subject.proven for subject in subjects}
    if len(kinds) == 1:
        return proven if kinds.pop() else otherwise
    return f"Where a bound is proven: {_lowered(proven)} Elsewhere: {_lowered(otherwise)}"


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _threat(subjects: Sequence[Subject]) -> bool:
    return any(subject.evidence.threat for subject in subjects)


def _names(subjects: Sequence[Subject]) -> list[str]:
    return list(dict.fromkeys(item.attack for subject in subjects for item in subject.evidence.measurements))


def _attacked(subjects: Sequence[Subject], public: bool) -> str:
    if public:
        return "left out of the public version as far as real members are concerned"
    names = _names(subjects)
    return f"tried with {', '.join(names)}" if names else "not tried on real members"


def _means(subjects: Sequence[Subject], public: bool) -> str:
    names = [] if public else _names(subjects)
    games = any(subject.evidence.demonstrations for subject in subjects)
    return ", ".join([*names, *(["games of an audit"] if games else [])]) or "nothing that this page may show"


def _any_means(subjects: Sequence[Subject]) -> str:
    return _where_proven(
        subjects,
        "The proof holds against any means, within its threat model.",
        "A stronger attack may find more.",
    )


def _protected(subjects: Sequence[Subject]) -> str:
    stated = {subject.claim is not None for subject in subjects if not subject.proven}
    without = "No formal protection is claimed."
    if True in stated:
        without = f"Differential privacy is claimed{' or not even that' * (False in stated)}; no proof was given."
    return _where_proven(subjects, "Differential privacy is claimed and proven from an event.", without)


def _bounded(subjects: Sequence[Subject]) -> str:
    return _where_proven(
        subjects,
        "The proven bound limits what one unit can add to any attack, extraction included.",
        "No proven bound limits other attacks.",
    )


def _each(subjects: Sequence[Subject]) -> str:
    return _where_proven(
        subjects,
        "The bound holds for every unit of privacy, the most unusual one included.",
        "Nothing here holds for every person.",
    )


def _promised(subjects: Sequence[Subject]) -> str:
    claims = [subject.claim is not None for subject in subjects]
    if all(claims):
        return "The claim card says it."
    return "The claim card says it where anything is promised." if any(claims) else "Nothing is promised."


def _audited(subjects: Sequence[Subject]) -> str:
    if any(subject.evidence.demonstrations for subject in subjects):
        return "The audit tested what the algorithm releases; its verdict and its reach are at the top of this page."
    return "No audit was made."


def _useful(subjects: Sequence[Subject]) -> str:
    some = any(subject.evidence.utility for subject in subjects)
    return "Utility is shown where it was measured." if some else "Utility was not measured."


NOT_PROMISED = (
    (
        "It does not hide what is true of everybody.",
        "A model may teach that a habit harms health. That can be told about a person who never gave any data, and no "
        "privacy loss is charged for it.",
    ),
    (
        "It protects one unit of privacy at a time.",
        "A person with several records, or a family, is protected less: for a group the loss grows with its size.",
    ),
    (
        "It adds up.",
        "Every further release from the same data adds to the loss. The bound on this page covers only what the claim "
        "card lists.",
    ),
    (
        "It compares two worlds; it is not a probability of harm.",
        "Epsilon limits how much any conclusion about a person can change by that person's taking part. When epsilon "
        "is large, the limit allows much.",
    ),
    (
        "It says nothing about the data before the release.",
        "Collection, storage, access, logs and checkpoints need protection of their own.",
    ),
    (
        "A lower bound is not an estimate.",
        "The demonstrated epsilon is the least that is certain at the stated confidence. The truth lies anywhere above "
        "it, up to the proof.",
    ),
    (
        "It does not make a model anonymous by name.",
        "Whether a model counts as anonymous is decided for the whole case, not by one number.",
    ),
)
