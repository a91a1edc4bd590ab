"""Expected renderings of chat templates, from Jinja2 itself, for src/text/chat_template_test.cpp.

  chat_template_fixtures.py write              writes tests/data/chat_templates/*.json
  chat_template_fixtures.py compare DRIVER [N] [SEED]
                                               N random templates, Jinja2 against DRIVER: a program that
                                               reads {"template", "context"} and writes {"ok"} or {"error"},
                                               one JSON object per line

Needs jinja2. The environment is set up as Hugging Face's libraries set it up for chat templates.
"""

import copy
import datetime
import json
import pathlib
import subprocess
import sys
import warnings

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import chat_template_battery as battery  # noqa: E402
import chat_template_random as random_templates  # noqa: E402
import chat_template_shapes as shapes  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "chat_templates"


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the model says, and prints it unchanged."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: datetime.datetime.now().strftime(format)
    return env


ENV = environment()


def render(template, context):
    """What Jinja2 makes of it: a string, or None for any error."""
    try:
        # A copy, because a filter may change its operand: `a_list|indent` appends to the list.
        out = ENV.from_string(template).render(**copy.deepcopy(context))
        out.encode("utf-8")
        return out
    except Exception:
        return None


def write_json(name, value):
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / name
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{path.name}: {path.stat().st_size} bytes")


def write():
    contexts = shapes.contexts()
    cases = []
    for name, template in shapes.TEMPLATES.items():
        for label, context in contexts.items():
            cases.append({"template": name, "context": label, "expected": render(template, context)})
    rendered = sum(c["expected"] is not None for c in cases)
    print(f"{len(cases)} renderings of models' shapes, {rendered} of them without an error")
    write_json("shapes.json", {"templates": shapes.TEMPLATES, "contexts": contexts, "cases": cases})

    snippets = []
    for template in battery.snippets():
        snippets.append({"template": template, "expected": render(template, battery.CONTEXT)})
    errors = sum(s["expected"] is None for s in snippets)
    print(f"{len(snippets)} snippets, {errors} of them errors")
    write_json("language.json", {"context": battery.CONTEXT, "cases": snippets})


def compare(driver, count, seed):
    templates = list(random_templates.generate(count, seed))
    context = battery.CONTEXT
    lines = "".join(json.dumps({"template": t, "context": context}) + "\n" for t in templates)
    answers = subprocess.run([driver], input=lines, capture_output=True, text=True, check=True).stdout.split("\n")
    warnings.simplefilter("ignore", SyntaxWarning)
    differences = errors = 0
    for template, answer in zip(templates, answers):
        expected = render(template, context)
        errors += expected is None
        got = json.loads(answer)
        if got.get("ok") == expected:
            continue
        if expected is not None and "cannot be sliced" in got.get("error", ""):
            continue  # Jinja2 folds constants with other rules: 1[2:] is undefined, x[2:] an error if x is 1
        if expected is not None and "Markup(" in expected:
            continue  # |e gives a type of its own, which repr shows
        if expected is not None and (" object at 0x" in expected or "<built-in" in expected or "<Macro" in expected):
            continue  # prints an address: nothing to agree on
        differences += 1
        if differences <= 25:
            print(f"{template!r}\n  jinja2: {expected!r}\n  driver: {got}")
    print(f"seed {seed}: {len(templates)} templates, {errors} errors in jinja2, {differences} differences")
    return differences


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write()
    elif sys.argv[1:2] == ["compare"] and len(sys.argv) > 2:
        found = compare(sys.argv[2], *(int(a) for a in (sys.argv[3:] + ["2000", "1"][len(sys.argv) - 3 :])))
        sys.exit(1 if found else 0)
    else:
        sys.exit(__doc__)
