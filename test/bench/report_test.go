// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func exampleSection() Section {
	r := pairs{base: sample{time.Millisecond}, value: sample{3 * time.Millisecond}}.row("run", "ms", time.Millisecond)
	r.aim("≤ 1 ms more", false)
	return Section{Title: "Start", Base: "bare", Rows: []Row{r}, Skipped: []Skipped{{"crun", "not in PATH"}}}
}

func TestTableShowsWhatWasMissedAndSkipped(t *testing.T) {
	var out strings.Builder
	if err := exampleSection().print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"run ", "≤ 1 ms more | MISSED |", "SKIP crun: not in PATH"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestJSONHasWhatTheTableHas(t *testing.T) {
	report := &Report{Version: 1, Machine: Machine{Kernel: "6.18"}, Sections: []Section{exampleSection()}}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := report.save(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(&back, report) {
		t.Errorf("%+v came back as %+v, %v", report, back, err)
	}
}
