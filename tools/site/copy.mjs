// SPDX-License-Identifier: Apache-2.0
// copy.mjs CHECKOUT TARGET copies README.md as the first page, and docs/ as the other ones. What a page links to
// outside of these is on the repository's own site.
import fs from 'node:fs'
import path from 'node:path'

const [checkout, target] = process.argv.slice(2)
const repository = 'https://github.com/mcpscope/mcpscope/blob/main/'
const link = /(!?\[(?:[^\]\\]|\\.)*\]\()([^)\s]+)(\))/g

// place returns where a file of the checkout is in the site, or undefined if it isn't there.
function place(file) {
  if (file === 'README.md') return 'index.md'
  const inside = file.startsWith('docs/') ? file.slice('docs/'.length) : undefined
  return inside && /\.(md|svg|png)$/.test(inside) ? inside : undefined
}

function rewrite(file, text) {
  text = text.replaceAll('```synopsis\n', '```txt\n') // a language of our tests
  return text.replace(link, (whole, before, to, after) => {
    if (/^[a-z]+:/.test(to) || to.startsWith('#')) return whole
    const [name, anchor] = to.split('#')
    const named = path.posix.join(path.posix.dirname(file), name)
    if (!fs.existsSync(path.join(checkout, named))) throw new Error(`${file}: there is no ${to}`)
    const found = place(named)
    if (!found) return before + repository + named + (anchor ? '#' + anchor : '') + after
    const relative = path.posix.relative(path.posix.dirname(place(file)), found)
    return before + './' + relative + (anchor ? '#' + anchor : '') + after
  })
}

const files = ['README.md']
for (const entry of fs.readdirSync(path.join(checkout, 'docs'), { recursive: true })) {
  files.push(path.posix.join('docs', entry))
}
for (const file of files) {
  const to = place(file)
  if (!to) continue
  const copy = path.join(target, to)
  fs.mkdirSync(path.dirname(copy), { recursive: true })
  if (file.endsWith('.md')) fs.writeFileSync(copy, rewrite(file, fs.readFileSync(path.join(checkout, file), 'utf8')))
  else fs.copyFileSync(path.join(checkout, file), copy)
}
