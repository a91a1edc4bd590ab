"""Random templates from a grammar of the supported language, for comparing two interpreters."""

import random

NAMES = ["n", "neg", "f", "t", "nothing", "s", "u", "pad", "empty", "csv", "quote", "xs", "words", "mixed", "d", "missing",
         "items_list", "html", "lines", "shadow"]
LITERALS = ["0", "1", "-1", "2", "3", "7", "1.5", "0.0", "2.0", "'a'", "'l'", "' '", "','", "'Ab c'", "''", "true", "false",
            "none", "[]", "{}", "()", "[1, 2]", "(1, 'x')", "{'a': 1}", "'\\n'", "'name'", "'b'"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">", "<=", ">=", "and", "or", "in", "not in"]
FILTERS = ["upper", "lower", "capitalize", "title", "trim", "length", "count", "join", "join(', ')", "first", "last", "list",
           "tojson", "tojson(indent=2)", "string", "int", "int(5)", "float", "abs", "round", "round(1)", "min", "max", "sum",
           "sort", "sort(reverse=true)", "unique|list", "reverse|list", "items|list", "dictsort", "indent", "indent(2, true)",
           "e", "default('D')", "default('D', true)", "replace('a', 'XY')", "replace('l', '', 1)", "map('string')|list",
           "map('upper')|join", "map(attribute='name')|list", "map(attribute='value', default=0)|list", "select|list",
           "reject|list", "select('number')|list", "reject('none')|list", "selectattr('name')|list",
           "selectattr('value', 'gt', 1)|list", "rejectattr('name', 'equalto', 'x')|list", "select('string')|map('length')|list",
           "batch(2)|list", "map('tojson')|join(';')", "trim('ad ')", "select('odd')|list"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence",
         "true", "false", "odd", "even", "divisibleby(2)", "eq(3)", "ne 'a'", "lt(4)", "ge(2)", "in [1, 'a', none]",
         "sameas(true)", "lower", "upper"]
METHODS = ["strip()", "lstrip()", "rstrip()", "strip('ab ')", "split()", "split(',')", "split('l', 1)", "rsplit(',', 1)",
           "splitlines()", "startswith('a')", "endswith('d')", "upper()", "lower()", "title()", "capitalize()",
           "replace('l', 'LL')", "find('o')", "rfind('l')", "count('l')", "isdigit()", "isalpha()", "isalnum()", "isspace()",
           "islower()", "isupper()", "items()|list", "keys()|list", "values()|list", "get('a')", "get('zz', 1)", "index(1)",
           "partition(',')", "removeprefix('He')", "append(1)", "nosuch", "name", "a", "b.c", "0", "name.upper()"]
SLICES = ["0", "-1", "1:", ":2", "::-1", "::2", "-2:", "1:-1", "5:1:-2", "'a'", "'name'", "n", "t", "none", "1.0", ":", "99", "-99:99"]


class Grammar:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def pick(self, options):
        return self.rng.choice(options)

    def expression(self, depth):
        if depth <= 0:
            return self.pick(NAMES) if self.rng.random() < 0.6 else self.pick(LITERALS)
        sub = lambda: self.expression(depth - 1)  # noqa: E731
        kind = self.rng.randrange(14)
        if kind < 3:
            return f"{sub()} {self.pick(BINARY)} {sub()}"
        if kind < 6:
            return f"{self.group(sub())}|{self.pick(FILTERS)}"
        if kind == 6:
            return f"{self.group(sub())} is {self.pick(['', '', 'not '])}{self.pick(TESTS)}"
        if kind == 7:
            return f"{self.group(sub())}.{self.pick(METHODS)}"
        if kind == 8:
            return f"{self.group(sub())}[{self.pick(SLICES)}]"
        if kind == 9:
            return f"({sub()} if {sub()} else {sub()})" if self.rng.random() < 0.8 else f"({sub()} if {sub()})"
        if kind == 10:
            return f"not {sub()}" if self.rng.random() < 0.5 else f"-{self.group(sub())}"
        if kind == 11:
            return f"[{sub()}, {sub()}]"
        if kind == 12:
            return f"{{'k': {sub()}, {sub()}: 2}}"
        return f"({sub()}, {sub()})"

    def group(self, e):
        return e if self.rng.random() < 0.3 else f"({e})"

    def tag(self, body):
        left, right = self.pick(["", "", "-", "+"]), self.pick(["", "", "-", "+"])
        return f"{{%{left} {body} {right}%}}"

    def text(self):
        return self.pick(["", " ", "\n", "x", "  \n  ", "\n\n", " a b ", "\t", "é\n ", "\r\n", "{# c #}", "{#- c -#}\n"])

    def variable(self, depth):
        left, right = self.pick(["", "", "-"]), self.pick(["", "", "-"])
        return f"{{{{{left} {self.expression(depth)} {right}}}}}"

    def block(self, depth):
        return "".join(self.text() + self.statement(depth) for _ in range(self.rng.randrange(1, 4))) + self.text()

    def statement(self, depth):
        kind = self.rng.randrange(12)
        if depth <= 0 or kind < 3:
            name = self.pick(["v", "v", "w", "ns.v", "loop.index", "loop.last", "x", "loop.previtem"])
            return self.variable(1) if self.rng.random() < 0.5 else f"{{{{ {name} }}}}"
        if kind < 5:
            other = self.tag("else") + self.block(depth - 1) if self.rng.random() < 0.5 else ""
            if self.rng.random() < 0.3:
                other = self.tag(f"elif {self.expression(1)}") + self.block(depth - 1) + other
            return self.tag(f"if {self.expression(1)}") + self.block(depth - 1) + other + self.tag("endif")
        if kind < 8:
            items = self.pick(["xs", "words", "d", "items_list", "[]", "missing", "range(3)", "u", "xs|reverse", "mixed[::-1]"])
            condition = f" if {self.pick(['x', 'x is string', 'x != 1', 'x is defined'])}" if self.rng.random() < 0.3 else ""
            leave = ""
            if self.rng.random() < 0.3:
                leave = self.tag(f"if {self.pick(['loop.index > 1', 'x', 'loop.last'])}") + self.tag(
                    self.pick(["break", "continue"])) + self.tag("endif")
            other = self.tag("else") + self.block(depth - 1) if self.rng.random() < 0.3 else ""
            return (self.tag(f"for x in {items}{condition}") + self.block(depth - 1) + leave + self.block(depth - 1)
                    + other + self.tag("endfor"))
        if kind < 10:
            target = self.pick(["v", "v", "w", "ns.v", "x"])
            return self.tag(f"set {target} = {self.expression(1)}")
        if kind == 10:
            return self.tag("set v") + self.block(depth - 1) + self.tag("endset")
        return "{{ m(" + self.expression(1) + ") }}"


def generate(count, seed):
    grammar = Grammar(seed)
    for i in range(count):
        if i % 2 == 0:
            yield "{{ " + grammar.expression(grammar.rng.randrange(1, 4)) + " }}"
        else:
            prelude = "{% set ns = namespace(v=0) %}{% macro m(a, b='B') %}<{{ a }}{{ b }}{{ v }}>{% endmacro %}"
            yield prelude + grammar.block(3)
