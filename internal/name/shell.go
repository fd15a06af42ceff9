// SPDX-License-Identifier: Apache-2.0

package name

import (
	"slices"
	"strings"
)

var shellFlags = grammar{valued: "-o -O --rcfile --init-file"}

func (c command) shell(args []string) string {
	p := shellFlags.parse(args)
	word, rest := p.word()
	if _, ok := p.flags["-c"]; ok {
		return c.line(word, rest)
	}
	return c.target(word)
}

// skipped are commands that prepare for the one that counts.
const skipped = "set export unset source . umask ulimit trap echo printf true false test [ [[ sleep mkdir mkfifo rm alias shopt eval wait"

// keywords may stand before a command.
const keywords = "if then else elif while until do { ! ("

// line names the first program that a script of a shell runs. args are the
// script's own: $0, $1 …
func (c command) line(script string, args []string) string {
	for _, words := range split(script, args).commands {
		for len(words) > 0 && listed(keywords, words[0]) {
			words = words[1:]
		}
		words = unassigned(words)
		switch {
		case len(words) == 0, listed(skipped, words[0]):
		case words[0] == "exec" && len(unassigned(words[1:])) == 0: // exec 2>log
		case words[0] == "cd":
			c = c.in(words[len(words)-1])
		default:
			return c.then(words).name()
		}
	}
	return ""
}

// split splits a script as far as it takes to find its programs: at
// quotes, blanks, and the operators between commands. Of all that a shell
// expands only a word that is one of its arguments is: exec "$@".
func split(script string, args []string) lexer {
	l := lexer{args: args}
	for l.at < len(script) {
		l.at += l.next(script[l.at:])
	}
	l.endCommand()
	return l
}

type lexer struct {
	args     []string // taken for "$@" once: what comes after that is not read
	spread   bool     // and that has been
	commands [][]string
	begins   [][]int // where their words begin
	words    []string
	begin    []int
	word     []byte
	inWord   bool // word is one, also if it is empty
	at, from int  // in the script: now, and where word began
}

// next takes one token from the head of s and returns its length.
func (l *lexer) next(s string) int {
	switch c := s[0]; {
	case c == '\'' || c == '"':
		return l.quoted(s)
	case c == '\\' && len(s) > 1:
		if s[1] != '\n' {
			l.add(s[1:2])
		}
		return 2
	case c == '#' && !l.inWord:
		line, _, _ := strings.Cut(s, "\n")
		return len(line)
	case strings.IndexByte(" \t\r", c) >= 0:
		l.endWord()
	case strings.IndexByte("\n;|()", c) >= 0, c == '&' && !l.redirecting():
		l.endCommand()
	default:
		l.add(s[:1])
	}
	return 1
}

// quoted takes a string in quotes; one that is never closed ends with s.
func (l *lexer) quoted(s string) int {
	l.add("")
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return i + 1
		case s[i] == '\\' && s[0] == '"' && i+1 < len(s) && strings.IndexByte("\"\\$`", s[i+1]) >= 0:
			i++
		}
		l.add(s[i : i+1])
	}
	return len(s)
}

// redirecting: the & of 2>&1 separates nothing.
func (l *lexer) redirecting() bool {
	return strings.HasSuffix(string(l.word), ">") || strings.HasSuffix(string(l.word), "<")
}

func (l *lexer) add(s string) {
	if !l.inWord {
		l.from = l.at
	}
	l.word, l.inWord = append(l.word, s...), true
}

func (l *lexer) endWord() {
	if l.inWord {
		all := l.expand(string(l.word))
		l.words, l.begin = append(l.words, all...), append(l.begin, slices.Repeat([]int{l.from}, len(all))...)
	}
	l.word, l.inWord = nil, false
}

func (l *lexer) endCommand() {
	l.endWord()
	if len(l.words) > 0 {
		l.commands, l.begins = append(l.commands, l.words), append(l.begins, l.begin)
	}
	l.words, l.begin = nil, nil
}

func (l *lexer) expand(word string) []string {
	switch {
	case len(word) != 2 || word[0] != '$':
	case (word[1] == '@' || word[1] == '*') && !l.spread:
		l.spread = true
		return l.args[min(1, len(l.args)):]
	case '0' <= word[1] && word[1] <= '9':
		if n := int(word[1] - '0'); n < len(l.args) {
			return l.args[n : n+1]
		}
	}
	return []string{word}
}
