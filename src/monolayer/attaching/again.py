"""Attach another set of facts to the same host; neurons of facts that are already stored are copied, bit for bit.

A neuron depends only on the host and its own fact, so the result is the one that `attach` gives for these facts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from monolayer.attaching.attach import check_neurons, check_outweighed, neurons_of, states_of
from monolayer.attaching.facts import each_once, ids_of, repeated_rows
from monolayer.attaching.folder import Attached
from monolayer.attaching.measuring import asked
from monolayer.attaching.neurons import Neurons
from monolayer.attaching.request import stored_facts
from monolayer.attaching.running import KeptStates, Running
from monolayer.data import Sequences
from monolayer.huggingface.manifest import fact_digest
from monolayer.table import Progress


def again(
    made: Attached,
    data: Sequences,
    *,
    device: str | torch.device | None = None,
    report: Progress = lambda stage, share: None,
) -> Attached:
    """The host of `made` with the facts in `data`. The host runs only if some are new; then every fact is tested."""
    manifest = made.manifest
    stated = ids_of(made.host, made.source.content, data, manifest.end, manifest.templates)
    facts = each_once(stated)
    stored, digests = stored_facts(facts), [fact_digest(fact) for fact in facts]
    starts = dict(zip((fact.fact for fact in made.manifest.facts), made.manifest.starts(), strict=True))
    known = {fact.fact: fact for fact in made.manifest.facts}
    new = [number for number, digest in enumerate(digests) if digest not in known]
    neurons, running = made.neurons, None
    seen: KeptStates | None = None
    if new:
        running = Running(made.host, made.source, device)
        fresh = [facts[number] for number in new]
        states, seen = states_of(running, fresh, report)
        seen = replace(seen, facts=new)
        neurons = neurons.joined(neurons_of(made.host, made.source, fresh, states, made.steep))
        first = len(made.neurons.b_1)
        for number in new:
            starts[digests[number]] = first
            known[digests[number]] = stored[number]
            first += len(facts[number].answer)
    order = [starts[digest] + place for digest in digests for place in range(known[digest].places)]
    rows = np.array(order, dtype=np.int64)
    listed = tuple(replace(known[each.fact], number=each.number) for each in stored)
    manifest = replace(made.manifest, facts=listed, per=data.per_answer, appended={})
    kept = Neurons(*(part[rows] for part in neurons))
    attached = Attached(made.host, made.source, kept, manifest, repeated=repeated_rows(data, facts))
    check_neurons(attached, facts)
    if running is not None:
        running.append([attached.block(number) for number in range(attached.blocks)])
        attached = asked(attached, running, facts, report, seen)
    check_outweighed(attached, facts)
    return attached
