// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// asFirst runs a server whose launcher is the first process of a container, or the child of
// its init. The server leaves a process behind that has to be killed.
func asFirst(e engine, c container) {
	t := e.t
	t.Helper()
	const server = `setsid sh -c 'trap "" TERM; echo up; sleep 100000' <&- & read line; exit 7`
	cmd := e.command(slices.Concat([]string{"run", "--rm", "--interactive", "--network=none"}, c.flags,
		[]string{image, "mcpscope", "run", "--report", "/dev/stderr", "--", "sh", "-c", server})...)
	var said bytes.Buffer
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	up := make([]byte, 3)
	if _, err := out.Read(up); string(up) != "up\n" {
		t.Errorf("the server said %q, %v", up, err)
	}
	fmt.Fprintln(stdin, "go") // if it is not there any more, its status says so
	_ = cmd.Wait()            // its status follows
	stdin.Close()
	var told struct {
		Backend string
		Killed  int `json:"killed_total"`
	}
	err = json.Unmarshal(said.Bytes(), &told)
	if code := cmd.ProcessState.ExitCode(); code != 7 || err != nil || told.Backend != c.backend || told.Killed == 0 {
		t.Errorf("as the first process: %v, want status 7; the report (%v), with backend %s and who was killed: %s",
			cmd.ProcessState, err, c.backend, said.String())
	}
}
