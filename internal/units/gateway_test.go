// SPDX-License-Identifier: Apache-2.0

package units

import (
	"strings"
	"testing"
)

// A drop-in keeps the command as the unit has it. Other units are refused.
func TestDropIn(t *testing.T) {
	const file = "# /etc/systemd/system/g.service\n[Service]\n"
	const own = "# /etc/systemd/system/g.service.d/mcpscope.conf\n[Service]\nExecStart=\n" +
		"ExecStart=/old/mcpscope gateway -- /bin/g\nSyslogIdentifier=g\n"
	for _, c := range []struct{ files, want, err string }{
		{file + "ExecStart=/bin/g run $OPTS \"a b\" %h\n", "\nExecStart=/opt/mcpscope gateway -- /bin/g run $OPTS \"a b\" %h\n", ""},
		{file + "ExecStart=/bin/g\n\n" + own, "\nSyslogIdentifier=g\n", ""},
		{file + "ExecStart = -:\"/usr/bin/g\" \\\n  run\n", "\nExecStart=-:/opt/mcpscope gateway -- \"/usr/bin/g\"    run\n", ""},
		{file + "ExecStart=\"/opt/a b/python\" -m x\n", "\nSyslogIdentifier=python\n", ""},
		{file + "ExecStart=/bin/g\nSyslogIdentifier=gw-%i\n", "\nSyslogIdentifier=gw-%i\n", ""},
		{file + "ExecStart=/bin/a\n# /run/g.service.d/x.conf\nExecStart=\nExecStart=/bin/b\n", " gateway -- /bin/b\n", ""},
		{file + "ExecStart=/bin/a\nExecStart=/bin/b\n", "", "starts 2 commands"},
		{file + "ExecStop=/bin/a\n", "", "starts 0 commands"},
		{file + "ExecStart=@/bin/g -g\n", "", `the prefix "@"`},
		{file + "ExecStart=/usr/bin/mcpscope gateway -- /bin/g\n", "", "is mcpscope gateway already"},
	} {
		f, err := dropIn("g.service", c.files, both)
		if c.err == "" && (err != nil || !strings.Contains(f.Text, c.want)) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %s, %v; want %q, %q", c.files, f.Text, err, c.want, c.err)
		}
	}
}
