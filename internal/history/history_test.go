// SPDX-License-Identifier: Apache-2.0

//go:build linux

package history

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// Nothing that a terminal would act on is printed, and no byte is lost in JSON.
func TestEntry(t *testing.T) {
	at := time.UnixMicro(1795161600500000).Format(time.DateTime)
	const head = `{"__REALTIME_TIMESTAMP":"1795161600500000","_UID":"1000","MESSAGE":`
	for text, want := range map[string]string{
		`"time (hxvqmwb5) ended"}`: "time (hxvqmwb5) ended", `"\u001b[31mred\u0007\tü\u009b"}`: "?[31mred?\tü?",
		`[97,255,27]}`: "a\ufffd?", `null}`: "", `["a\nb","c"]}`: "a?b", `[[97,98],"c"]}`: "ab", `{"x":1}}`: "",
	} {
		var all []string
		err := readLines(strings.NewReader(head+text+"\nhalf a line"), func(line []byte) error {
			var e entry
			err := json.Unmarshal(line, &e)
			all = append(all, e.line())
			return err
		})
		if err != nil || len(all) != 1 || all[0] != at+"  "+want {
			t.Errorf("%s: %q, %v", text, all, err)
		}
	}
	var out bytes.Buffer
	f := Query{Json: true}
	if err := f.print([]byte("{\"MESSAGE\":\"a\u009b\"}\n"), cli.Stdio{Out: &out}); err != nil || out.String() != "{\"MESSAGE\":\"a\\u009b\"}\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// A line that is too long is passed over, and the next one is read.
func TestLongLine(t *testing.T) {
	var all []string
	err := readLines(strings.NewReader(strings.Repeat("x", 2*entryMost+7)+"\nnext\n"), func(line []byte) error {
		all = append(all, string(line))
		return nil
	})
	if err != nil || len(all) != 1 || all[0] != "next\n" {
		t.Errorf("%q, %v", all, err)
	}
}

func FuzzEvent(f *testing.F) {
	f.Add(`{"__REALTIME_TIMESTAMP":"1","_UID":"0","MCPSCOPE_ID":"a","MESSAGE":[[1,2],null,"x"]}`)
	f.Add(`{"__REALTIME_TIMESTAMP":"9223372036854775807","MESSAGE":[27,1e9],"MCPSCOPE_ID":["a",1]}`)
	f.Fuzz(func(t *testing.T, line string) {
		var e entry
		if json.Unmarshal([]byte(line), &e) != nil {
			return
		}
		if text := strings.ReplaceAll(e.line(), "\t", ""); text != cli.OneLine(text) {
			t.Errorf("%q: %q", line, text)
		}
	})
}
