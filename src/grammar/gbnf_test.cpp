#include "grammar/test_support.h"

namespace quire {
namespace {

using namespace testing_support;

TEST(Gbnf, AcceptsWhatTheRulesSay) {
  Automaton a = automaton_of(parse_gbnf(R"gbnf(
    # arithmetic
    root  ::= (expr "=" term "\n")+
    expr  ::= term ([-+*/] term)*   # not left recursive
    term  ::= ident | num |
              "(" expr ")"
    ident ::= [a-z] [a-z0-9_]{0,3}
    num   ::= [0-9]+
  )gbnf"));
  for (const char* text : {"1=2\n", "a+b=c\n", "(a+b)*12=abcd\nx=y\n", "((1))=1\n"})
    EXPECT_TRUE(accepts(a, text)) << text;
  for (const char* text : {"", "1=2", "abcde=1\n", "(1=1\n", "1+=1\n", "A=1\n", "()=1\n"})
    EXPECT_FALSE(accepts(a, text)) << text;
}

TEST(Gbnf, RepeatsAsOftenAsItSays) {
  Automaton a = automaton_of(parse_gbnf(R"(root ::= "x"{2} "y"{1,} "z"{0,2} ("ab" | "c")? [^\n"]*)"));
  for (const char* text : {"xxy", "xxyyyzz", "xxyab", "xxyzc", "xxyzzabé€\xF0\x9F\x98\x80"})
    EXPECT_TRUE(accepts(a, text)) << text;
  for (const char* text : {"xy", "xx", "xxy\n", "xxy\xC3", "xxy\xED\xA0\x80", "xxy\""})
    EXPECT_FALSE(accepts(a, text)) << text;
}

TEST(Gbnf, ReadsEscapesAndCharactersOutsideAscii) {
  Automaton a = automaton_of(parse_gbnf("root ::= \"\\x41\\u00e9\\U0001F600\\\"\" [α-ω\\]\\x2D] ."));
  EXPECT_TRUE(accepts(a, "Aé\xF0\x9F\x98\x80\"β日"));
  EXPECT_TRUE(accepts(a, "Aé\xF0\x9F\x98\x80\"]\n"));
  EXPECT_TRUE(accepts(a, "Aé\xF0\x9F\x98\x80\"-x"));
  EXPECT_FALSE(accepts(a, "Aé\xF0\x9F\x98\x80\"Ωx"));
  EXPECT_FALSE(accepts(a, "Aé\xF0\x9F\x98\x80\"β"));
}

TEST(Gbnf, NestsWithoutLimit) {
  Automaton a = automaton_of(parse_gbnf(R"gbnf(root ::= "(" root* ")" | "[" root "]")gbnf"));
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '(') + std::string(static_cast<std::size_t>(depth), ')');
  };
  EXPECT_TRUE(accepts(a, nested(500)));
  EXPECT_TRUE(accepts(a, "(()[()])"));
  EXPECT_FALSE(accepts(a, nested(500) + ")"));
  EXPECT_FALSE(accepts(a, "([)]"));
}

// "ab" of every stack is dropped before any that closes sooner; what is left can always be closed.
TEST(Gbnf, StaysSmallWhereStacksMultiply) {
  Automaton a = automaton_of(parse_gbnf(R"(root ::= "a" root "b" | "a" root "c" | "a" root "bb" | "d")"));
  EXPECT_TRUE(accepts(a, "aadbc"));
  EXPECT_TRUE(accepts(a, "aadbbbb"));
  Automaton::State state = a.start();
  for (int i = 0; i < 40; ++i) state = a.step(state, 'a');
  ASSERT_NE(state, Automaton::kDead);
  EXPECT_EQ(a.shortest(state), 41u);
  while (!a.complete(state)) state = a.step(state, a.closing_byte(state));
}

TEST(Gbnf, SaysWhatIsWrongAndWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {"a ::= \"x\"", "no rule 'root'"},
      {"root ::= \"x\"\nroot ::= \"y\"", "line 2: rule 'root' is defined twice"},
      {"root ::= \"x\"\n\na ::= b", "line 3: rule 'b' is not defined"},
      {"root = \"x\"", "'::=' was expected after 'root'"},
      {"root ::= \"x", "no closing '\"'"},
      {"root ::= [a-", "no closing ']'"},
      {"root ::= [b-a]", "ends before it begins"},
      {"root ::= (\"a\"", "')' was expected"},
      {"root ::= \"\\q\"", "'\\q' is not an escape"},
      {"root ::= \"\\ud800\"", "hexadecimal digits that make a character"},
      {"root ::= \"a\"{3,2}", "{m}, {m,} or {m,n} was expected"},
      {"root ::= \"a\" )", "')' was not expected"},
      {"root ::= root \"a\" | \"b\"", "rule 'root' begins with itself"},
      {"root ::= n x\nn ::= \"n\"?\nx ::= n x \"a\" | \"b\"", "rule 'x' begins with itself"},
      {"root ::= \"a\" root", "no text of at most"},
      {"root ::= ((\"a\"{1000}){1000}){1000}", "too large"},
      {"root ::= ([^a-c]{0,1000}){0,1000}", "too large"},
      {"root ::= \xFF", "byte 9 of the grammar is not UTF-8"},
  };
  for (const auto& [source, message] : cases) {
    EXPECT_NE(message_of(parse_gbnf(source)).find(message), std::string::npos)
        << source << "\nsays: " << message_of(parse_gbnf(source));
  }
  EXPECT_NE(message_of(parse_gbnf("root ::= " + std::string(200, '(') + "\"a\"" + std::string(200, ')')))
                .find("more than 100 groups"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
