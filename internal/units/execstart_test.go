// SPDX-License-Identifier: Apache-2.0

package units

import (
	"strings"
	"testing"
)

// A command that was changed since the installation is found, wherever it is. Other changes do not count.
func TestCommandHasChanged(t *testing.T) {
	before := fragment("ExecStart=-/bin/g \\\n run $X\n")
	f, err := dropIn(serviceOf(before), both, "--replace=true")
	if err != nil {
		t.Fatal(err)
	}
	ours := unitFile{"/etc/systemd/system/" + f.Name, sealed(f.Text)}
	// A former version kept the blanks that begin a continued line.
	formerBlanks := ours
	formerBlanks.Text = sealed(strings.Replace(f.Text, "/bin/g run", "/bin/g   run", 1))
	const other = "[Service]\nExecStart=\nExecStart=/bin/c\n"
	override := unitFile{"/etc/systemd/system/g.service.d/override.conf", other}
	for name, c := range map[string]struct {
		files []unitFile
		want  bool
	}{
		"same":             {[]unitFile{before, ours}, false},
		"other lines":      {[]unitFile{fragment("ExecStart=-/bin/g  \\\n   run $X\n"), ours}, false},
		"former blanks":    {[]unitFile{before, formerBlanks}, false},
		"other settings":   {[]unitFile{fragment("ExecStart=-/bin/g \\\n run $X\nNice=5\n"), ours}, false},
		"other words":      {[]unitFile{fragment("ExecStart=-/bin/g run $X --port 1\n"), ours}, true},
		"other prefix":     {[]unitFile{fragment("ExecStart=/bin/g \\\n run $X\n"), ours}, true},
		"edited":           {[]unitFile{before, override, ours}, true},
		"several commands": {[]unitFile{fragment("ExecStart=/bin/g\nExecStart=/bin/h\n"), ours}, true},
		"no drop-in":       {[]unitFile{before, override}, false},
	} {
		if got := serviceOf(c.files...).commandHasChanged(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
