// SPDX-License-Identifier: Apache-2.0

//go:build linux

package units

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// The properties that a drop-in preserves, and services without a command for a gateway.
func TestGatewayService(t *testing.T) {
	loaded := func(commands ...systemd.Command) systemd.Service {
		return systemd.Service{State: "loaded", Start: commands}
	}
	command := func(words ...string) systemd.Command { return systemd.Command{Path: words[0], Argv: words} }
	flagged := command("/bin/g", "run")
	flagged.Flags = []string{"ignore-failure", "no-env-expand"}
	unknown := command("/bin/g")
	unknown.Flags = []string{"via-shell"}
	renamed := systemd.Command{Path: "/bin/g", Argv: []string{"-g", "x"}}
	stale := loaded(command("/bin/g"))
	stale.Stale = true
	for _, c := range []struct {
		known systemd.Service
		want  string
		err   string
	}{
		{stale, "", "systemctl daemon-reload first"},
		{loaded(renamed), "", "another name than its program"},
		{loaded(unknown), "", "a prefix that mcpscope does not know: via-shell"},
		{loaded(command("/bin/g", "run", "$OPTS", "a b")), "/bin/g|run|$OPTS|a b ", ""},
		{loaded(flagged), "/bin/g|run -:", ""},
		{loaded(command("/usr/bin/mcpscope", "gateway", "--memory-max", "1G", "--", "/bin/g", "run")), "/bin/g|run ", ""},
	} {
		s, err := gatewayService(c.known)
		if c.err == "" && (err != nil || strings.Join(s.Argv, "|")+" "+s.Prefix != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%+v: %+v, %v; want %q, %q", c.known, s, err, c.want, c.err)
		}
	}
}
