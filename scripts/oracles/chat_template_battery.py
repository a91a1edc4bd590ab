# Long because it is data: one row per snippet.
"""Small templates that cover the language one feature at a time, and the values they use."""

CONTEXT = {
    "n": 3,
    "neg": -7,
    "f": 2.5,
    "t": True,
    "nothing": None,
    "s": "Hello World",
    "u": "h\u00e9llo \u4e16\u754c \U0001F600",
    "pad": "  \t padded\n ",
    "empty": "",
    "csv": "a,b,,c",
    "quote": "it's \"quoted\" \\ and\nmore",
    "xs": [3, 1, 2],
    "words": ["pear", "Apple", "fig", "apple"],
    "mixed": [1, "two", 3.0, None, True, [1, 2], {"k": "v"}],
    "d": {"b": 1, "a": [1, 2, {"x": None}], "C": "str", "n\u00e9": 1.5},
    "items_list": [
        {"name": "x", "value": 3, "tags": ["p", "q"], "on": True},
        {"name": "y", "value": 1, "tags": [], "on": False},
        {"name": "z", "value": 2, "inner": {"deep": "D"}},
    ],
    "shadow": {"items": "mine", "keys": 5, "update": 1, "plain": 2},
    "html": "<a href=\"x\">T&C's</a>",
    "lines": "one\ntwo\r\nthree\n\nfive",
}

EXPRESSIONS = r"""
1 + 2 * 3
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7 / 2
6 / 2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
7.5 // 2
-7.5 % 2
1 / 0
1 // 0
1 % 0
1.5 + 1
10 - 2.5
3 * 'ab'
'ab' * 3
'ab' * -1
[1, 2] * 2
[1] + [2, 3]
(1,) + (2,)
[1] + (2,)
'a' + 1
'a' ~ 1 ~ none ~ 2.0 ~ true
1 + true
not 1
not none
not not s
- n
+ n
- 'a'
1 == 1.0
1 == true
'1' == 1
none == none
[1, 2] == [1, 2]
[1, 2] == (1, 2)
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
1 != 2
1 < 2 < 3
1 < 3 < 2
1 < 'a'
'a' < 'b'
'Z' < 'a'
[1, 2] < [1, 3]
none < 1
2 in xs
9 in xs
9 not in xs
'ell' in s
'x' in s
1 in s
'a' in d
'zz' in d
'a' in missing
missing in xs
true and 'yes'
false or 'no'
0 or none or ''
1 and 2 and 3
missing or 'fallback'
'a' if n > 2 else 'b'
'a' if n > 5
'a' if n > 5 else 'b' if n > 2 else 'c'
s
u
pad
quote
xs
mixed
d
nothing
t
f
missing
missing.attr
missing['x']
missing()
missing + 1
-missing
missing == missing
missing is defined
missing is not defined
s is defined
d.zz is defined
d.zz
d.zz.yy
d['a'][2].x
d.a.0
d.a[0]
d.b.c
s[0]
s[-1]
s[99]
s[1:4]
s[::-1]
s[::2]
s[-3:]
s[:-3]
s[5:2]
s[10:0:-3]
s[::0]
u[1]
u[::-1]
u[2:7]
xs[0]
xs[-1]
xs[5]
xs[1:]
xs[::-1]
xs[:-1]
xs['0']
xs[1.0]
xs[true]
d[1:2]
n[0]
none[0]
(1, 2, 3)[1]
(1)
(1,)
()
[]
{}
[1, 'a', [2], {'b': none}]
{'a': 1, "b": 'it\'s', 3: 4.0}
{'a': 1, 'a': 2}
{[1]: 2}
'a' 'b' "c"
'tab\there'
"new\nline"
'\x41\u00e9\101'
'\q'
'\\'
1_000
0x1F
0o17
0b101
1e3
1.5e-7
1e16
123456789.123
0.1 + 0.2
1e400
100000000000000000000.0
007
9223372036854775807 + 0
true
True
none
None
loop
range(3)
range(3)|list
range(1, 10, 3)|list
range(5, 0, -2)|list
range(2, 2)|list
range(1, 2, 0)
range('a')
range(3)[1]
range(3)|length
range(200000)
s|upper
s|lower
s|capitalize
s|title
"it's a-b (c) <d> e_f"|title
"it's a-b c".title()
pad|trim
'xxhixx'|trim('x')
s|length
u|length
xs|length
d|length
n|length
missing|length
xs|count
xs|join
xs|join(', ')
mixed|join('|')
items_list|join(', ', attribute='name')
missing|join
n|join
s|replace('l', 'L')
s|replace('l', 'L', 1)
s|replace('', '-')
u|replace('', '.')
n|replace(3, 4)
missing|default('d')
missing|d('x')
missing|default
nothing|default('d')
nothing|default('d', true)
empty|default('d', true)
empty|default('d', boolean=true)
xs|first
xs|last
s|first
s|last
u|last
[]|first
[]|last
d|first
n|first
missing|first
s|list
u|list
d|list
n|list
xs|map('string')|list
xs|map('string')|join('-')
words|map('upper')|list
words|map('length')|list
items_list|map(attribute='name')|list
items_list|map(attribute='inner.deep')|list
items_list|map(attribute='inner.deep', default='none')|list
items_list|map(attribute='tags.0')|list
items_list|map(attribute='inner')|list
words|map('replace', 'p', 'P')|list
words|map|list
words|map('nosuch')|list
xs|select('odd')|list
xs|reject('odd')|list
mixed|select|list
mixed|reject|list
xs|select('gt', 1)|list
xs|select('>', 1)|list
xs|select('in', [1, 2])|list
items_list|selectattr('on')|map(attribute='name')|list
items_list|rejectattr('on')|map(attribute='name')|list
items_list|selectattr('value', 'gt', 1)|map(attribute='name')|list
items_list|selectattr('name', 'equalto', 'x')|list
items_list|selectattr('inner', 'defined')|map(attribute='name')|list
items_list|selectattr('inner', 'undefined')|map(attribute='name')|list
items_list|selectattr('inner.deep', 'equalto', 'D')|list
items_list|selectattr|list
xs|tojson
d|tojson
d|tojson(indent=2)
d|tojson(indent=0)
mixed|tojson(indent=4)
[]|tojson(indent=2)
{}|tojson(indent=2)
d|tojson(separators=(',', ':'))
d|tojson(sort_keys=true)
d|tojson(ensure_ascii=true)
u|tojson
u|tojson(ensure_ascii=true)
quote|tojson
html|tojson
1.0|tojson
1e20|tojson
true|tojson
none|tojson
missing|tojson
'\x00\x1f\x7f'|tojson
(1, 2)|tojson
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
range(2)|tojson
n|string
none|string
xs|string
'42'|int
'42.9'|int
' 42 '|int
'x'|int
'x'|int(7)
'ff'|int(base=16)
'0x1f'|int(base=16)
'-5'|int
'1_000'|int
2.9|int
-2.9|int
none|int
true|int
missing|int
xs|int
'3.5'|float
'x'|float
'x'|float(1.5)
3|float
'1e3'|float
none|float
-3|abs
-3.5|abs
'a'|abs
2.5|round
3.5|round
2.567|round(2)
2.567|round(2, 'floor')
2.561|round(2, 'ceil')
1234.5|round(-2)
5|round
5|round(1)
'a'|round
2.1|round(0, 'other')
xs|min
xs|max
words|min
words|max
words|max(case_sensitive=true)
[]|min
mixed|max
xs|sum
items_list|sum(attribute='value')
xs|sum(start=10)
words|sum
xs|sort
xs|sort(reverse=true)
words|sort
words|sort(case_sensitive=true)
words|sort(reverse=true)
items_list|sort(attribute='value')|map(attribute='name')|list
mixed|sort
words|unique|list
words|unique(case_sensitive=true)|list
[1, 1.0, true, 2]|unique|list
xs|reverse|list
s|reverse
d|items|list
d|dictsort
d|dictsort(case_sensitive=true)
{'a': 3, 'b': 1}|dictsort(by='value')
{'a': 3, 'b': 1}|dictsort(reverse=true)
xs|items|list
missing|items|list
lines|indent
lines|indent(2)
lines|indent(2, true)
lines|indent(2, first=true, blank=true)
lines|indent('> ')
n|indent
html|e
html|escape
html|forceescape
n|e
[1, 2, 3, 4, 5]|batch(2)|list
[1, 2, 3, 4, 5]|batch(2, 'x')|list
'%s is %d and %.2f'|format('a', 3, 2.5)
'%s' % 'x'
'%s-%s' % ('a', 1)
'%5d|%-5d|%05d' % (42, 42, -42)
'100%%' % ()
'%s %s' % 'x'
'%d' % 'x'
'%r' % 'x'
s|nosuchfilter
s|upper|lower|length
xs|first|string|length
(xs|length) + 1
xs|length + 1
-xs|length
d|attr('b')
d|attr('items')()
n is defined
n is number
n is integer
f is float
f is integer
f is number
t is boolean
t is number
t is integer
t is true
t is false
1 is true
s is string
n is string
nothing is none
missing is none
d is mapping
xs is mapping
xs is sequence
s is sequence
d is sequence
n is sequence
xs is iterable
s is iterable
n is iterable
missing is iterable
n is odd
n is even
4 is divisibleby 2
4 is divisibleby(3)
n is eq 3
n is equalto(3)
n is ne 3
n is lt 5
n is le 3
n is gt 5
n is ge(3)
n is in xs
n is in [5]
'l' is in s
none is sameas none
true is sameas true
1 is sameas true
'abc' is lower
'ABC' is upper
'Abc' is upper
n is not odd
not n is odd
n is nosuchtest
n is defined and s is string
n is string or n is number
raise_exception is callable
n is callable
s is odd
pad.strip()
pad.lstrip()
pad.rstrip()
'xyhixy'.strip('yx')
'xyhixy'.lstrip('yx')
'xyhixy'.rstrip('yx')
s.strip(none)
csv.split(',')
csv.split(',', 1)
csv.split(',', maxsplit=1)
csv.rsplit(',', 1)
csv.split('')
csv.split('zz')
' a  b c '.split()
' a  b c '.split(none, 1)
' a  b c '.rsplit(none, 1)
' a  b c '.rsplit()
empty.split()
empty.split(',')
csv.split(',')[-1]
lines.splitlines()
lines.splitlines(true)
s.startswith('He')
s.startswith('x')
s.startswith(('x', 'He'))
s.endswith('ld')
s.endswith(('x', 'y'))
s.startswith(1)
s.upper()
s.lower()
u.upper()
'\u00c9T\u00c9 \u0416 \u03a9'.lower()
'stra\u00dfe'.upper()
s.capitalize()
s.replace('o', '0')
s.replace('o', '0', 1)
s.replace('o')
s.replace(1, 2)
s.find('o')
s.find('zz')
s.rfind('o')
u.find('\u754c')
s.index('zz')
s.count('l')
s.count('')
', '.join(words)
', '.join(xs)
'-'.join('abc')
'{} and {}'.format(1, 'b')
'{0}{1}{0}'.format('a', 'b')
'{x}'.format(x=5)
'{{}}'.format()
'{} {}'.format(1)
'123'.isdigit()
'12a'.isdigit()
''.isdigit()
'abc'.isalpha()
'ab1'.isalpha()
'ab1'.isalnum()
' \t'.isspace()
'ABC'.isupper()
'abc'.islower()
'a=b=c'.partition('=')
'a=b=c'.rpartition('=')
'abc'.partition('x')
'prefix-x'.removeprefix('prefix-')
'x.txt'.removesuffix('.txt')
s.nosuch
s.nosuch()
s['upper']()
d.items()
d.items()|list
d.keys()
d.keys()|list
d.values()|list
d.get('b')
d.get('zz')
d.get('zz', 'dflt')
d.get([1])
d.items()[0]
d.items()|length
d.copy()
d.update({'x': 1})
d.pop('b')
d.clear()
xs.append(4)
xs.pop()
xs.sort()
xs.index(1)
xs.index(9)
xs.count(1)
(1, 2, 1).count(1)
xs.append is defined
d.update is defined
shadow.items is string
shadow['items']
shadow.keys is number
shadow['keys']
shadow.update is defined
shadow.update
shadow.plain
s.__class__
''.__class__.__mro__
dict(a=1, b=2)
dict([('a', 1)])
dict({'a': 1}, b=2)
namespace(a=1).a
namespace(a=1).b
raise_exception('boom')
s(1)
n.nosuch is defined
[x for x in xs]
{'a'}
1 +
(1
[1, 2
{'a': }
a b
1 2
s|
s.
s[
"unclosed
n is
n is not
1 if
* 2
@
$
!x
x = 1
foo(a=1, 2)
""".strip("\n").split("\n")

TEMPLATES = [
    "",
    "plain text",
    "trailing newline\n",
    "two trailing\n\n",
    "crlf\r\nline\rcr",
    "{# comment #}x",
    "a {#- both -#} b",
    "a\n  {# indented #}\nb",
    "{#\nmany\nlines #}\nx",
    "{# unclosed",
    "{{ unclosed",
    "{% if x",
    "{% if true %}x",
    "{% endif %}",
    "{% nosuchtag %}",
    "{{ }}",
    "{{}}",
    "{%%}",
    "}} %} #}",
    "{ { x } }",
    "{{ '}}' }}",
    "{{ '{%' ~ '%}' }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ 1, 2 }}",
    "  {% if true %}\n  yes\n  {% endif %}\nend",
    "  {%+ if true %}\n  yes\n  {% endif +%}\nend",
    "a  {%- if true -%}  b  {%- endif -%}  c",
    "a  {{- 1 -}}  b",
    "a\n\n{{- 1 -}}\n\nb",
    "  {{ 1 }}\n  {{ 2 }}\n",
    "x {% if true %}\ny{% endif %}\nz",
    "x\n\t {% if true %}y{% endif %}z",
    "x\n\n  {%- if true %}\n\n y{% endif %}",
    "{% if true -%}\n\n  a{% endif %}",
    "{% if true %}\r\n  a{% endif %}",
    "{%- if true -%}  x  {%- endif -%}",
    "{%if true%}tight{%endif%}",
    "{{1}}{{ 2}}{{3 }}",
    "{% raw %}{{ x }} {% if %}{% endraw %}",
    "{%- raw -%}\n {{ x }} \n{%- endraw -%} y",
    "a\n  {% raw %}\n b\n  {% endraw %}\nc",
    "{% raw %}unclosed",
    "{% if n == 3 %}three{% elif n == 4 %}four{% else %}other{% endif %}",
    "{% if n == 4 %}three{% elif n == 3 %}four{% else %}other{% endif %}",
    "{% if false %}a{% elif none %}b{% elif missing %}c{% else %}d{% endif %}",
    "{% if xs and d and s %}all{% endif %}{% if [] or {} or '' or 0 or 0.0 %}any{% endif %}",
    "{% for x in xs %}{{ x }},{% endfor %}",
    "{% for x in [] %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in missing %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in n %}{{ x }}{% endfor %}",
    "{% for x in none %}{{ x }}{% endfor %}",
    "{% for c in u %}[{{ c }}]{% endfor %}",
    "{% for k in d %}{{ k }} {% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }} {% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}",
    "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for (a, b) in [[1, 2]] %}{{ a }}{{ b }}{% endfor %}",
    "{% for x in xs if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}",
    "{% for x in xs if x > 9 %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}"
    "{{ loop.last }}{{ loop.length }}{{ loop.depth }} {% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for x in xs %}{{ loop.cycle('odd', 'even') }} {% endfor %}",
    "{% for x in xs %}{{ loop.nosuch }}{% endfor %}",
    "{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in xs %}{% continue %}{% else %}no iteration reached its end{% endfor %}",
    "{% for x in xs %}{% if x == 3 %}{% break %}{% endif %}{% else %}no iteration reached its end{% endfor %}",
    "{% break %}",
    "{% for x in xs %}{% for y in xs %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }} {% endfor %}",
    "{% for x in xs %}{% set y = x %}{% endfor %}{{ y is defined }}",
    "{% set y = 0 %}{% for x in xs %}{{ y }}{% set y = x %}{{ y }} {% endfor %}{{ y }}",
    "{% set x = 'outer' %}{% for x in xs %}{{ x }}{% endfor %}{{ x }}",
    "{% for x in xs %}{% endfor %}{{ x is defined }}{{ loop is defined }}",
    "{% if true %}{% set y = 1 %}{% endif %}{{ y }}",
    "{% if false %}{% set n = 1 %}{% endif %}{{ n }}",
    "{% set n = n + 1 %}{{ n }}",
    "{% for x in xs %}{% if true %}{% set n = x %}{% endif %}{{ n }}{% endfor %}{{ n }}",
    "{% for i in range(3) %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in xs[::-1] %}{{ x }}{% endfor %}",
    "{% for x in xs|reverse %}{{ x }}{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for x in (xs) %}{{ x }}{% endfor %}",
    "{% for x in xs %}\n  {{ x }}\n{% endfor %}\n",
    "{% for x in xs -%}\n  {{ x }}\n{%- endfor %}\n",
    "{% for m in xs | sort %}{{ m }}{% endfor %}",
    "{% for %}{% endfor %}",
    "{% for x xs %}{% endfor %}",
    "{% for x.y in xs %}{% endfor %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = [1, 2] %}{{ a }}{{ b }}",
    "{% set a, b = 1 %}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set a %}block {{ n }}{% endset %}{{ a }}|{{ a|length }}",
    "{% set a | upper %}block {{ n }}{% endset %}{{ a }}",
    "{% set a | upper | trim %} block {% endset %}{{ a }}",
    "{% set a %}{% set inner = 1 %}{% endset %}{{ inner is defined }}",
    "{% set true = 1 %}",
    "{% set 1 = 1 %}",
    "{% set a.b = 1 %}",
    "{% set d.b = 5 %}{{ d.b }}",
    "{% set ns = namespace(x=0) %}{% for v in xs %}{% set ns.x = ns.x + v %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace() %}{% set ns.y = 'v' %}{{ ns.y }}{{ ns.z is defined }}",
    "{% set ns = namespace({'q': 1}, r=2) %}{{ ns.q }}{{ ns.r }}{{ ns['q'] }}",
    "{% set ns = namespace(found=false) %}{% for x in xs %}{% if x == 1 %}{% set ns.found = true %}{% endif %}"
    "{% endfor %}{{ ns.found }}",
    "{% set ns = namespace(a=[]) %}{% for x in xs %}{% set ns.a = ns.a + [x] %}{% endfor %}{{ ns.a }}",
    "{% macro m(a, b='dflt') %}[{{ a }}-{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(zz=2) }}",
    "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(7) }}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m() %}{{ n }}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}",
    "{% macro fact(k) %}{{ 1 if k < 2 else k * (fact(k - 1)|int) }}{% endmacro %}{{ fact(5) }}",
    "{% macro m() %}{% set n = 99 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}",
    "{% macro m(x) %}\n  <{{ x }}>\n{% endmacro %}\n{{ m(1) }}{{ m(2)|trim }}",
    "{% macro m(x) -%}\n  <{{ x }}>\n{%- endmacro %}\n{{ m(1) }}{{ m(2) }}",
    "{% macro m() %}x{% endmacro %}{{ m()|upper }}{{ m() ~ m() }}{{ m is defined }}",
    "{{ m() }}{% macro m() %}x{% endmacro %}",
    "{% macro m(v) %}{% for i in v %}{{ i }}{% endfor %}{% endmacro %}{% for k in [xs, xs] %}{{ m(k) }};{% endfor %}",
    "{% filter upper %}abc {{ s }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}abc{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a is defined }}",
    "{% generation %}said {{ n }}{% endgeneration %}",
    "{% for x in xs %}{% generation %}{{ x }}{% endgeneration %}{% endfor %}",
    "{% print 1, 2 %}",
    "{{ xs|map('string')|length }}",
    "{% if xs|select('gt', 9) %}truthy{% endif %}",
    "{% set g = xs|map('string') %}{{ g|join }}{{ g|join }}",
    "{{ (xs|map('string'))[0] }}",
    "{% set q = dict(a=1) %}{{ q.a }}{{ q }}",
    "{{ s.split(' ')[0].upper() ~ '!' }}",
    "{{ (s if n else u).split()|last }}",
    "{{ items_list[0].tags|join('+') if items_list[0].tags else 'no' }}",
    "{{ items_list[1]['tags'] }}{{ items_list[2].tags }}",
    "{{ '%s' | format(n) }}",
    "{{ [1, 2, 3] | map('string') | join(',') }}",
    "{{ foo(*xs) }}",
    "{% macro m(a, b, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*xs) }}{{ m(**{'a': 1, 'b': 2, 'c': 3}) }}",
    "{{ strftime_now('%%') }}",
    "{{ strftime_now('') }}x",
    "{{ '\u00e9' ~ \"\u4e16\" }}\u00e9",
    "line1\nline2 {{ boom() }}",
    "{{ 1 }}\n\n{% if true %}\n\n2\n\n{% endif %}\n\n3\n",
    "{% if true %} {% endif %}\n{% if true %}\n{% endif %}x",
    "{{ 'a' if }}",
    "{% set x = %}",
    "{% if %}{% endif %}",
    "{% else %}",
    "{% for x in xs %}{% else %}{% else %}{% endfor %}",
    "{% if 1 %}{% else %}{% elif 2 %}{% endif %}",
    "{% macro %}{% endmacro %}",
    "{% macro m( %}{% endmacro %}",
    "{% include 'x' %}",
    "{% import 'x' as y %}",
]


def snippets():
    for expression in EXPRESSIONS:
        yield "{{ " + expression + " }}"
    yield from TEMPLATES
