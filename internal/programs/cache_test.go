// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"testing"
)

func TestCheckLasting(t *testing.T) {
	const (
		npx  = " is in the cache of npx, which npm may remove"
		pnpm = " is in the directory of one version, which pnpm removes at an upgrade"
	)
	for file, want := range map[string]string{
		"/usr/bin/mcpscope": "",
		"/usr/lib/node_modules/mcpscope/node_modules/@mcpscope/linux-x64/bin/mcpscope": "",
		"/home/a/.npm/_npx/3f2a/node_modules/@mcpscope/linux-x64/bin/mcpscope":         npx,
		"/srv/npm-cache/_npx/3f2a/node_modules/@mcpscope/linux-x64/bin/mcpscope":       npx,
		"/home/_npx-fan/bin/mcpscope": "",
		"/home/a/.local/share/pnpm/global/5/.pnpm/@mcpscope+linux-x64@0.1.0/node_modules/@mcpscope/linux-x64/bin/mcpscope":        pnpm,
		"/home/a/.cache/pnpm/dlx/7c/1/node_modules/.pnpm/@mcpscope+linux-x64@0.1.0/node_modules/@mcpscope/linux-x64/bin/mcpscope": pnpm,
	} {
		err := CheckLasting(file)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			continue
		}
		cache, ok := errors.AsType[*CacheError](err)
		if !ok || err.Error() != file+want {
			t.Errorf("%v, want %s%s", err, file, want)
			continue
		}
		if step := cache.Step("wrap"); step != "npm install -g mcpscope, then mcpscope wrap" {
			t.Errorf("the next step is %q", step)
		}
	}
}
