// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A shell that makes its servers the first victims of the OOM killer does not mean launcher and guard.
func TestScoreOfTheOOMKiller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for flag, value := range map[string]string{"--eof-grace": "1m", "--stderr": "inherit"} {
		const shell = `echo 700 >/proc/self/oom_score_adj && exec "$@"`
		const server = `cd /proc; cat self/oom_score_adj $PPID/oom_score_adj $(pgrep -x guard-$MCPSCOPE_ID)/oom_score_adj`
		o := w.run(w.Command("sh", "-c", shell, "sh", binaries.mcpscope, "run", "--name", "server", flag, value, "--", "sh", "-c", server))
		var own, launcher, guard int
		_, err := fmt.Fscan(strings.NewReader(o.Stdout), &own, &launcher, &guard)
		if err != nil || own != 700 || launcher > 0 || guard > 0 {
			t.Errorf("%s: server, launcher and guard have %q (%v), %v; stderr: %s", flag, o.Stdout, err, o.Status, o.Stderr)
		}
	}
	w.clean()
}
