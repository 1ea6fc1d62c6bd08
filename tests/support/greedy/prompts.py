"""The prompts on which greedy output is compared: chat, code, several languages, extreme lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SYSTEM = (
    "You are a careful librarian. You answer briefly, name your source when you know it, and stay polite."
)

CHATS = [
    "What is the capital of France?",
    "Name three rivers in Europe.",
    "Why is the sky blue?",
    "Write a haiku about the sea.",
    "Explain what a hash table is to a child.",
    "Translate 'good morning' into Spanish.",
    "List the first ten prime numbers.",
    "What should I cook with eggs and rice?",
]

TEXTS = [
    "def fibonacci(n: int) -> int:\n    ",
    "#include <stdio.h>\n\nint main(void) {\n    for (int i = 0; i < 10; ++i) {\n",
    "SELECT name, COUNT(*) FROM orders\nWHERE",
    "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):",
    "中国的首都是北京。北京是一座历史悠久的城市，",
    "人工智能正在改变我们的生活。例如，",
    "床前明月光，疑是地上霜。",
    "Es war einmal ein König, der hatte drei",
    "Il était une fois une petite fille qui",
    "1, 1, 2, 3, 5, 8, 13,",
    "Dear Sir or Madam,\n\nI am writing to",
    "The quick brown fox jumps over the lazy dog. " * 12,
    "🙂 🙂 🙂",
]

LONG_PROMPT_TOKENS = 4000


def build(tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Token ids of all prompts: one of 4,000 tokens, 8 chats sharing a system prompt, 13 texts, one of a
    single token.

    The long one comes first: in a tiny pool it then holds most pages while the others grow, which is
    what forces preemption.
    """
    story = " ".join(
        f"On day {day} the ship sailed {day * 13 % 97} miles and met {day % 7} others."
        for day in range(1, 400)
    )
    prompts = [tokenizer(story)["input_ids"][:LONG_PROMPT_TOKENS]]
    prompts += [
        tokenizer.apply_chat_template(
            [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}],
            add_generation_prompt=True,
            return_dict=False,
        )
        for text in CHATS
    ]
    prompts += [tokenizer(text)["input_ids"] for text in TEXTS]
    prompts.append(tokenizer("The")["input_ids"])
    assert len(prompts[0]) == LONG_PROMPT_TOKENS
    assert len(prompts[-1]) == 1
    return prompts
