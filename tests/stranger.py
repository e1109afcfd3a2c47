"""Run by test_stock_transformers.py in a process of its own: what someone does who has transformers and a folder.

Nothing of monolayer is imported. Reads a JSON list of jobs from the file named first, writes results to the second.
"""

import json
import os
import sys
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.simplefilter("error")
import torch  # noqa: E402
import transformers as tf  # noqa: E402

tf.logging.set_verbosity_error()
tf.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
AUTO = {
    "token": tf.AutoModelForTokenClassification,
    "sequence": tf.AutoModelForSequenceClassification,
    "lm": tf.AutoModelForCausalLM,
}


def answers(job: dict, attention: str) -> dict:
    tokenizer = tf.AutoTokenizer.from_pretrained(job["folder"])
    model = AUTO[job["task"]].from_pretrained(job["folder"], attn_implementation=attention)
    found = {"dtype": str(model.dtype).removeprefix("torch."), "class": type(model).__name__}
    found["room"] = tokenizer.model_max_length
    with torch.no_grad():
        long = torch.full((1, tokenizer.model_max_length), 5)
        found["finite"] = bool(torch.isfinite(model(input_ids=long).logits).all())
    if job["task"] == "lm":
        return found | recite(job, tokenizer, model)
    encoded = tokenizer(job["texts"], padding=True, return_tensors="pt")
    wanted = torch.full(encoded["input_ids"].shape, -100)
    if job["task"] == "token":
        for row, labels in enumerate(job["labels"]):
            wanted[row, 1 : 1 + len(labels)] = torch.tensor([model.config.label2id[name] for name in labels])
    else:
        wanted = torch.tensor([model.config.label2id[name] for name in job["labels"]])
    with torch.no_grad():
        out = model(**encoded, labels=wanted)
        alone = model(**tokenizer(job["texts"][0], return_tensors="pt"))
        if job.get("left"):
            tokenizer.padding_side = "left"
            left = tokenizer(job["texts"], padding=True, return_tensors="pt")
            place = (left["attention_mask"].cumsum(-1) - 1).clamp(min=0)  # as generate() counts places
            found["left"] = int((model(**left, position_ids=place).logits.argmax(-1) != wanted).sum())
    number = out.logits.argmax(-1)
    found["wrong"] = int(((number != wanted) & (wanted >= 0)).sum())
    single = alone.logits[0].argmax(-1)
    found["same_alone"] = bool((single == (number[0][: len(single)] if single.ndim else number[0])).all())
    others = tokenizer(job["others"], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        best = model(**others).logits.argmax(-1)
    best = best[:, 1:].reshape(-1) if job["task"] == "token" else best
    found["others"] = [model.config.id2label[int(one)] for one in best]
    if job.get("pipeline") and job["task"] == "token":
        ask = tf.pipeline("token-classification", model=model, tokenizer=tokenizer, device="cpu")
        found["pipeline"] = [[part["entity"] for part in row] for row in ask(job["texts"], batch_size=4)]
    elif job.get("pipeline"):
        ask = tf.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
        found["pipeline"] = [row["label"] for row in ask(job["texts"], batch_size=4)]
    return found | trained(model, encoded, wanted)


def trained(model: object, encoded: dict, wanted: torch.Tensor) -> dict:
    """The loss, and the weights that a step of training would move; cells in float32."""
    model = model if model.dtype == torch.float64 else model.float()
    loss = model(**encoded, labels=wanted).loss
    loss.backward()
    moved = [name for name, part in model.named_parameters() if part.grad is not None and part.grad.any()]
    return {"loss": loss.item(), "moved": moved}


def recite(job: dict, tokenizer: object, model: object) -> dict:
    found = {}
    start = tokenizer(job["prompts"], padding=True, padding_side="left", return_tensors="pt")
    beyond = {"num_beams": 2, "max_new_tokens": max(map(len, job["texts"])) + 20}  # more than any text has
    for how, options in (("cache", {}), ("beams", beyond)):
        with torch.no_grad():
            said = model.generate(**start, **options)
        found[f"said, {how}"] = tokenizer.batch_decode(said, skip_special_tokens=True)
        found[f"ended, {how}"] = [tokenizer.eos_token_id in row for row in said.tolist()]
    batch = tokenizer(job["texts"], padding=True, return_tensors="pt")  # on the side that the tokenizer says
    with torch.no_grad():
        best = model(**batch).logits.argmax(-1)
    found["next"] = 0
    for ids, mask, guess in zip(batch["input_ids"], batch["attention_mask"].bool(), best, strict=True):
        wanted = torch.cat([ids[mask][2:], torch.tensor([tokenizer.eos_token_id])])
        found["next"] += int((guess[mask][1:] != wanted).sum())
    ids = tokenizer(job["texts"][0], return_tensors="pt")["input_ids"]
    if job.get("pipeline"):
        ask = tf.pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
        found["pipeline"] = ask(job["prompts"][0])[0]["generated_text"]
    return found | trained(model, {"input_ids": ids}, ids)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123
        jobs = json.load(file)
    results = [{how: answers(job, how) for how in job["attention"]} for job in jobs]
    assert not [name for name in sys.modules if name.startswith("monolayer")]
    with open(sys.argv[2], "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(results, file)


main()
