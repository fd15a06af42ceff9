// SPDX-License-Identifier: Apache-2.0

package week

import (
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// await [!] REGEXP PROGRAM ARGUMENT…: runs the program again until its output matches, or with `! await` until it
// does not. It stands for a user who runs a command such as mcpscope ls until it shows a change.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] await REGEXP PROGRAM ARGUMENT…")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	matches := func() bool {
		err = ts.Exec(args[1], args[2:]...)
		return want.MatchString(ts.ReadFile("stdout")) != neg
	}
	if !pace.Eventually(escape.Patience, matches) {
		ts.Fatalf("%q does not print %q (negated: %v); the last run ended with %v", args[1:], args[0], neg, err)
	}
}
