// SPDX-License-Identifier: Apache-2.0

package week

import (
	"bytes"
	"os/exec"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// rounds is how often a user looks again for a while as long as there was a change: of many servers, a few a second start
// on a busy machine.
const rounds = 10

// [!] await REGEXP PROGRAM ARGUMENT…: runs the program again until its output matches, or with "!" until it does not.
// It stands for a user who runs a command such as mcpscope ls until it shows a change. stdout stays that of the last
// exec.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] await REGEXP PROGRAM ARGUMENT…")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	var out, before []byte
	matches := func() bool {
		cmd := exec.Command("env", append([]string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME")}, args[1:]...)...)
		cmd.Dir = ts.MkAbs(".")
		out, err = cmd.CombinedOutput()
		return want.Match(out) != neg
	}
	for range rounds {
		if pace.Eventually(escape.Patience, matches) {
			return
		}
		if bytes.Equal(out, before) {
			break
		}
		before = out
	}
	ts.Fatalf("%q still prints (%v):\n%s", args[1:], err, out)
}
