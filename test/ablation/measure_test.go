// SPDX-License-Identifier: Apache-2.0

package ablation

import (
	"os"
	"regexp"
	"testing"
	"time"
)

// What make ablation says to TestAblation: the page to write, and a regular expression of the mechanisms to try, with
// which no page is written.
const (
	pageEnv = "MCPSCOPE_ABLATION"
	onlyEnv = "MCPSCOPE_ABLATION_ONLY"
)

// TestAblation writes the page. It has nothing to do unless it is told where to.
func TestAblation(t *testing.T) {
	file, only := os.Getenv(pageEnv), os.Getenv(onlyEnv)
	if file == "" {
		return
	}
	pattern, err := regexp.Compile(only)
	if err != nil {
		t.Fatal(err)
	}
	runs := []run{common}
	var all []result
	for _, m := range mechanisms {
		if pattern.MatchString(m.name) {
			all = append(all, result{mechanism: m})
			runs = append(runs, m.runs...)
		}
	}
	start := time.Now()
	whole, err := measure(runs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("with all mechanisms: %d cells, red: %q, swept: %q", whole.Cells, whole.Red, whole.Swept)
	for i := range all {
		r := &all[i]
		if r.outcome, err = measure(append([]run{common}, r.runs...), r.edits); err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		t.Logf("%v: without %s: %d cells, red: %q, swept: %q", time.Since(start).Round(time.Second), r.name, r.Cells, r.Red, r.Swept)
		if r.lost(whole) == (r.kept != "") {
			t.Errorf("without %s %d cells are red, and the reason why it is kept all the same is %q", r.name, len(r.Red), r.kept)
		}
	}
	if len(whole.Red) > 0 {
		t.Fatalf("red with all mechanisms: %q", whole.Red)
	}
	if only != "" {
		return
	}
	if err := os.WriteFile(file, []byte(page(all, whole)), 0o644); err != nil {
		t.Fatal(err)
	}
}
