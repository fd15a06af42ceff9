// SPDX-License-Identifier: Apache-2.0

package name

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCheck(t *testing.T) {
	for name, want := range map[string]string{
		"my weather, größer ✓ 🚀": "", "\ufffd": "", "a\u200db": "", strings.Repeat("x", MaxLen): "",
		"":                            "name is empty",
		strings.Repeat("x", MaxLen+1): "name has 4097 bytes, 4096 are allowed",
		"\u00a0\u3000":                "name is only white space",
		"ä\xc3":                       "name has invalid UTF-8 at byte 2",
		"\xed\xa0\x80":                "name has invalid UTF-8 at byte 0", // half a surrogate pair
		"ä\x1b[2J":                    "name has control character U+001B at byte 2",
		"a\u009b":                     "name has control character U+009B at byte 1",
		"a\u2028":                     "name has line separator U+2028 at byte 1",
		"ab\u202e":                    "name has text direction override U+202E at byte 2",
	} {
		got := ""
		if err := Check(name); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.20q: got %q, want %q", name, got, want)
		}
	}
}

func TestDir(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"weather", "weather"},
		{"my weather", "my_weather"},
		{"größe", "gr_e"},
		{"a/../b", "a_.._b"},
		{"a  /  b", "a_b"},
		{"a _ b", "a___b"},
		{"..", "server"},
		{".-.a-", "a-"},
		{"", "server"},
		{strings.Repeat("x", 49), strings.Repeat("x", 48)},
		{"-" + strings.Repeat("é", 49) + strings.Repeat("x", 99), "_" + strings.Repeat("x", 47)},
	} {
		if got := Dir(tt.name); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// FuzzCheck compares with the rules read one by one.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"weather", "", " ", "a\xff", "\ufffd", "a\u202e", "\u2028", "a\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		want := name != "" && len(name) <= MaxLen && utf8.ValidString(name) &&
			!strings.ContainsFunc(name, unicode.IsControl) &&
			!strings.ContainsAny(name, "\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") &&
			strings.TrimSpace(name) != ""
		if err := Check(name); (err == nil) != want {
			t.Fatalf("%q: %v", name, err)
		}
	})
}

func FuzzDir(f *testing.F) {
	for _, seed := range []string{"weather", "", "..", "-a b", "größe", "\xff", strings.Repeat("x", 99)} {
		f.Add(seed)
	}
	shape := regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	f.Fuzz(func(t *testing.T, name string) {
		dir := Dir(name)
		if !shape.MatchString(dir) || len(dir) > maxDir {
			t.Fatalf("%q became %q", name, dir)
		}
		if again := Dir(dir); again != dir {
			t.Fatalf("%q became %q, then %q", name, dir, again)
		}
		if err := Check(dir); err != nil {
			t.Fatal(err)
		}
	})
}
