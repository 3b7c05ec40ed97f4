// SPDX-License-Identifier: Apache-2.0
// How text from outside and numbers are printed.
#include "reports/render/text.h"

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <limits>
#include <stdexcept>

#include "reports/self/fixture.h"

namespace assay {
namespace {

TEST(Text, ShowsWhatCannotBeShown) {
  EXPECT_EQ(printable("a\x01\x1b[2J\x7f\n"), "a\\x01\\x1b[2J\\x7f\\x0a");
  EXPECT_EQ(printable("é ∞ 😀"), "é ∞ 😀");
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xc3("), "\\xc3(");                           // cut short
  EXPECT_EQ(printable("\xc3"), "\\xc3");                             // at the end
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xef\xbf\xbf"), "\\xef\\xbf\\xbf");           // U+FFFF, which XML forbids
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");                    // C1: a control sequence
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(escape_markup("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
}

TEST(Text, LosesItsMiddleInAMessage) {
  const std::string whole(200, 'a');
  EXPECT_EQ(excerpt(whole), whole);
  EXPECT_EQ(excerpt("\x1b\n"), "\\x1b\\x0a");
  const std::string cut = excerpt("<" + whole + ">");
  EXPECT_EQ(cut, "<" + std::string(99, 'a') + "[... 202 bytes ...]" + std::string(39, 'a') + ">");
  EXPECT_EQ(excerpt(cut), cut);
  std::string accents;
  for (int i = 0; i < 101; ++i) accents += "é";
  EXPECT_EQ(printable(excerpt("x" + accents)), excerpt("x" + accents)) << "a character is cut in two";
  EXPECT_EQ(excerpt(whole, 100), std::string(50, 'a') + "[... 200 bytes ...]" + std::string(20, 'a'));
}

// What a path says may have any length. Most of it is not even looked at.
TEST(Text, OfAnyLengthIsCutInTheSameWay) {
  const std::string large(20'000'000, '\x1b');
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(has(excerpt(large), "x1b\\x1b[... 20000000 bytes ...]\\x1b")) << excerpt(large);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(100));
  for (size_t letters = 0; letters < 5; ++letters) {
    std::string accents(letters, 'a'), shown;
    for (int i = 0; i < 1000; ++i) accents += "é";
    shown = excerpt(accents);
    EXPECT_EQ(printable(shown), shown) << "a character is cut in two";
    EXPECT_EQ(shown.substr(0, 99), accents.substr(0, 99));
    EXPECT_EQ(shown.substr(shown.size() - 39), accents.substr(accents.size() - 39));
  }
}

TEST(Text, ShowsWhatAnExceptionSaysOrThatItSaysNothing) {
  struct SaysNothing : std::exception {
    const char* what() const noexcept override { return nullptr; }
  };
  EXPECT_EQ(message_of(std::runtime_error("no")), "no");
  EXPECT_EQ(message_of(SaysNothing()), "(its what() is null)");
}

TEST(Text, ClipsBetweenCharacters) {
  EXPECT_EQ(clipped("abcdef", 6), "abcdef");
  EXPECT_EQ(clipped("abcdef", 5), "ab…");
  EXPECT_EQ(clipped("éééé", 6), "é…");
}

TEST(Text, PrintsNumbers) {
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(0.9999), "1.00");
  EXPECT_EQ(format_number(99.96), "100");
  EXPECT_EQ(format_number(123456), "123456");
  EXPECT_EQ(format_number(1.5e-9), "1.50e-09");
  EXPECT_EQ(format_number(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(format_number(std::nullopt), "–");
  EXPECT_EQ(format_ratio(std::nullopt), "–");
  EXPECT_EQ(format_ratio(0.9994), "0.999");
  EXPECT_EQ(format_ratio(0.9996), "0.999");
  EXPECT_EQ(format_ratio(std::nextafter(1.0, 0.0)), "0.999");
  EXPECT_EQ(format_ratio(1), "1.00");
  EXPECT_EQ(format_ratio(1.5), "1.50");
  EXPECT_EQ(format_time(999.4), "999 ns");
  EXPECT_EQ(format_time(999.6), "1.00 µs");
  EXPECT_EQ(format_time(4.75e5), "475 µs");
  EXPECT_EQ(format_time(3e12), "3000 s");
  EXPECT_EQ(format_rate(4.25e12), "4250 GB/s");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(150'000'000'000), "150 GB");
  EXPECT_EQ(format_percent(0.931), "93.1 %");
  EXPECT_EQ(format_percent(0), "0 %");
  EXPECT_EQ(format_percent(1e-5), "0.00100 %");
  EXPECT_EQ(format_percent(3.7e-44), "under 0.001 %");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-123), "-123");
  EXPECT_EQ(plural(1, "case"), "1 case");
}

TEST(Text, QuotesForTheShell) {
  const Case which{.op = "it's", .path = "cpu", .dtype = DType::kF32, .dims = {}};
  EXPECT_EQ(replay_command("build/assay", which),
            "build/assay replay 'it'\\''s/cpu/f32/data=normal/state=first_call/seed=0'");
  EXPECT_TRUE(replay_command("my tools/assay", which).starts_with("'my tools/assay' replay 'it'"));
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace assay
