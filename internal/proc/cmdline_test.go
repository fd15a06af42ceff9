// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestOneLine(t *testing.T) {
	tests := []struct {
		name, text string
		cut        bool
		want       string
	}{
		{"usual", "node\x00server.js\x00--port=1\x00", false, "node server.js --port=1"},
		{"rewritten title", "sshd: root@pts/0\x00\x00\x00\x00", false, "sshd: root@pts/0"},
		{"escape sequence", "\x1b[2J\x00\x9b\x00", false, "?[2J ?"},
		{"newline", "sh\x00-c\x00a\n\tb\x00", false, "sh -c a??b"},
		{"control character of two bytes", "a\u0085b", false, "a?b"},
		{"turned text", "a\u202eb\u2066c\u2028d\u2029", false, "a?b?c?d?"},
		{"not UTF-8", "a\xffb\xc3", false, "a?b?"},
		{"cut within a rune", "ab\xe5\x90", true, "ab"},
		{"cut within a rune of four", "ab\xf0\x9f\x98", true, "ab"},
		{"stray continuation bytes", "\x80\x80\x80\x80", true, "????"},
	}
	for _, tt := range tests {
		if got := oneLine([]byte(tt.text), tt.cut); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func FuzzOneLine(f *testing.F) {
	f.Add([]byte("node\x00server.js\x00"), false)
	f.Add([]byte("\xf0\x9f\x98"), true)
	f.Add([]byte("\u0085\u202e\x80"), false)
	f.Fuzz(func(t *testing.T, b []byte, cut bool) {
		s := oneLine(b, cut)
		if !utf8.ValidString(s) || len(s) > len(b) || strings.ContainsFunc(s, misleads) {
			t.Fatalf("%q became %q", b, s)
		}
	})
}
