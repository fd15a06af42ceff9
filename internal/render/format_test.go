// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	views := someViews()
	for text, want := range map[string]string{
		`{{.Name}} {{.Memory}}`:                       "time 52428800",
		`{{.ID}}\t{{size .Memory}} {{size .Peak}}`:    "k3x9w2ab\t50M 100M",
		`{{.Client.Name}}[{{.Client.PID}}]`:           "hermes[4711]",
		`{{duration .Age}} {{.State}} {{.Processes}}`: "1h2m running 3",
		`{{.Project}}{{with .Ended}}ended{{end}}`:     "shop",
		`{{json .Client}}`:                            `{"pid":4711,"name":"hermes"}`,
		`{{.Started.Year}}`:                           "2026",
		`{{index .Limits "memory.max"}}`:              "",
	} {
		f, err := ParseFormat(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var out bytes.Buffer
		if err := f.Write(&out, views[:1]); err != nil || out.String() != want+"\n" {
			t.Errorf("%s: %q (%v), want %q", text, out.String(), err, want)
		}
	}
}

// No name acts on the terminal, and an unknown figure is no error.
func TestFormatOfHarmfulNames(t *testing.T) {
	f, err := ParseFormat(`{{.Name}}|{{size .Peak}}`)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = f.Write(&out, someViews()[1:])
	if want := "evil?[31m?\"\\|-\nzombie|-\n"; err != nil || out.String() != want {
		t.Errorf("%q (%v), want %q", out.String(), err, want)
	}
}

// A mistake is refused before there is a server.
func TestFormatMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`{{.Nam}}`: "Nam", `{{.Name`: "unclosed action", `{{bytes .Memory}}`: `"bytes" not defined`, `{{size .Name}}`: "is no size",
	} {
		if _, err := ParseFormat(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
