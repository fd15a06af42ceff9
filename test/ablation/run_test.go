// SPDX-License-Identifier: Apache-2.0

package ablation

import (
	"slices"
	"testing"
)

// What counts is what has no subtests, and what did not end is red.
func TestParse(t *testing.T) {
	t.Parallel()
	o, said := parse([]byte(`{"Action":"run","Test":"TestA"}
{"Action":"run","Test":"TestA/x/y"}
{"Action":"run","Test":"TestA/x"}
{"Action":"output","Test":"TestA/x/y","Output":"    judge.go:1: it took a sweep\n"}
{"Action":"pass","Test":"TestA/x/y"}
{"Action":"run","Test":"TestA/z"}
{"Action":"fail","Test":"TestA/z"}
{"Action":"fail","Test":"TestA"}
{"Action":"run","Test":"TestB"}
{"Action":"skip","Test":"TestB"}
{"Action":"run","Test":"TestC"}
{"Action":"output","Output":"panic"}
{"Action":"fail"}
`))
	if o.Cells != 3 || !slices.Equal(o.Red, []string{"TestA/z", "TestC"}) || !slices.Equal(o.Swept, []string{"TestA/x/y"}) {
		t.Errorf("%+v", o)
	}
	if said != "    judge.go:1: it took a sweep\npanic" {
		t.Errorf("said %q", said)
	}
}

// Runs of one package are one, with each pattern once.
func TestMerged(t *testing.T) {
	t.Parallel()
	got := merged([]run{{"a", "^X$/^(y|z)$", true}, {"b", "^X$", true}, {"a", "^Y$", true}, {"a", "^X$/^(y|z)$", true}, {"a", "^Y$", false}})
	want := []run{{"a", "^X$/^(y|z)$|^Y$", true}, {"b", "^X$", true}, {"a", "^Y$", false}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
