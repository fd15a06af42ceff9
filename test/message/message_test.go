// SPDX-License-Identifier: Apache-2.0

package message

import "testing"

// Another wording of a message is no problem; another shape, status, word or command is one.
func TestProblem(t *testing.T) {
	want := Message{Status: 1, Begin: "cannot ", Word: "time", Hint: "mcpscope ls --all"}
	for text, ok := range map[string]bool{
		"mcpscope: cannot stop time\nmcpscope: hint: mcpscope ls --all\n":                                true,
		"mcpscope: cannot find time: it is gone\nmcpscope: hint: to see them, mcpscope ls --all; wait\n": true,
		"mcpscope: cannot stop time\nmcpscope: hint: mcpscope ls --all --yes\n":                          false,
		"mcpscope: cannot stop time\nmcpscope: hint: mcpscope ls\n":                                      false,
		"mcpscope: cannot stop time\n":                                                                   false,
		"mcpscope: cannot stop it\nmcpscope: hint: mcpscope ls --all\n":                                  false,
		"mcpscope: note: time\nmcpscope: hint: mcpscope ls --all\n":                                      false,
		"mcpscope: cannot stop time\nnow\nmcpscope: hint: mcpscope ls --all\n":                           false,
		"mcpscope: cannot stop time\nmcpscope: hint: mcpscope ls --all":                                  false,
		"": false,
	} {
		if problem := want.Problem(1, "", text); (problem == "") != ok {
			t.Errorf("%q: %q", text, problem)
		}
	}
	const text = "mcpscope: cannot stop time\nmcpscope: hint: mcpscope ls --all\n"
	if want.Problem(0, "", text) == "" || want.Problem(1, "stopped", text) == "" {
		t.Error("a status or an output that is wrong is no problem")
	}
}
