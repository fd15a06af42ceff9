// SPDX-License-Identifier: Apache-2.0

package ablation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/test/escape"
)

// run is a choice of the tests of one package.
type run struct {
	pkg     string // its directory
	pattern string // of go test -run
	whole   bool   // with every cell that there is to choose from (MCPSCOPE_TEST_FULL)
}

// patience takes the place of escape.Patience: a cell that is red waits so long, and others wait for it.
var patience = edit{"test/escape/doc.go", "const Patience = 30 * time.Second", "const Patience = " + patienceHere + " * time.Second"}

const patienceHere = "15"

// outcome is what runs have come to.
type outcome struct {
	Cells int      // that ran: tests and subtests without subtests
	Red   []string // of them
	Swept []string // of them, those that needed a sweep
}

// overlays is where the changed files are while tests run with them.
const overlays = root + "/.cache/ablation"

// runLimit is for one run, with what it builds.
const runLimit = "8m"

// do runs tests against the product with the edits.
func (r run) do(edits []edit) (outcome, error) {
	if err := errors.Join(os.RemoveAll(overlays), os.MkdirAll(overlays, 0o755)); err != nil { // of one that was killed
		return outcome{}, err
	}
	defer os.RemoveAll(overlays)
	overlay, err := writeOverlay(overlays, append(slices.Clone(edits), patience))
	if err != nil {
		return outcome{}, err
	}
	cmd := exec.Command("go", "test", "-json", "-vet=off", "-count=1", "-timeout="+runLimit, "-run="+r.pattern, "./"+r.pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	if r.whole {
		cmd.Env = append(cmd.Env, "MCPSCOPE_TEST_FULL=1")
	}
	out, err := cmd.Output() // that tests fail is no error
	o, said := parse(out)
	if o.Cells == 0 {
		return o, fmt.Errorf("%s ran no test of %s: %v\n%s", r.pattern, r.pkg, err, said)
	}
	return o, nil
}

// parse reads what go test -json prints.
func parse(out []byte) (o outcome, said string) {
	ended := map[string]string{} // test → its end
	inner := map[string]bool{}   // it has subtests
	var all []string
	var text strings.Builder
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			continue // of a process that was killed in the middle of a line
		}
		if e.Action == "output" || e.Action == "build-output" {
			if strings.Contains(e.Output, escape.TookASweep) {
				o.Swept = append(o.Swept, e.Test)
			}
			text.WriteString(e.Output)
		}
		if e.Test == "" {
			continue
		}
		switch e.Action {
		case "run":
			all = append(all, e.Test)
			for at := range e.Test {
				if e.Test[at] == '/' {
					inner[e.Test[:at]] = true
				}
			}
		case "pass", "fail", "skip":
			ended[e.Test] = e.Action
		}
	}
	for _, test := range all {
		switch {
		case inner[test] || ended[test] == "skip":
		case ended[test] == "pass":
			o.Cells++
		default: // one that did not end has failed
			o.Cells++
			o.Red = append(o.Red, test)
		}
	}
	return o, text.String()
}

// add puts two outcomes together.
func (o *outcome) add(more outcome) {
	o.Cells += more.Cells
	o.Red = append(o.Red, more.Red...)
	o.Swept = append(o.Swept, more.Swept...)
}

// merged makes one run of those of the same package, which is then built once.
func merged(runs []run) (all []run) {
	for _, r := range runs {
		i := slices.IndexFunc(all, func(m run) bool { return m.pkg == r.pkg && m.whole == r.whole })
		switch {
		case i < 0:
			all = append(all, r)
		case !slices.Contains(strings.Split(all[i].pattern, "$|"), strings.TrimSuffix(r.pattern, "$")):
			all[i].pattern += "|" + r.pattern
		}
	}
	return all
}

// try runs the tests of a mechanism against a product without it.
func try(runs []run, edits []edit) (o outcome, err error) {
	for _, r := range merged(runs) {
		more, err := r.do(edits)
		if err != nil {
			return o, err
		}
		o.add(more)
	}
	return o, nil
}
