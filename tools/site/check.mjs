// SPDX-License-Identifier: Apache-2.0
// check.mjs SITE: every link of the site leads to a page, and to a heading of it if it names one.
import fs from 'node:fs'
import path from 'node:path'

const site = process.argv[2]
const pages = new Map() // of paths, with the ids that each has
for (const entry of fs.readdirSync(site, { recursive: true })) {
  if (!entry.endsWith('.html')) continue
  const html = fs.readFileSync(path.join(site, entry), 'utf8')
  pages.set('/' + entry, { html, ids: new Set([...html.matchAll(/ id="([^"]*)"/g)].map((m) => m[1])) })
}
let links = 0
const dead = []
for (const [from, { html }] of pages) {
  for (const [, to] of html.matchAll(/ href="([^"]*)"/g)) {
    if (/^[a-z]+:/.test(to)) continue
    links++
    const url = new URL(to, 'http://site' + from)
    const name = url.pathname === '/' ? '/index.html' : url.pathname
    const anchor = decodeURIComponent(url.hash.slice(1))
    const page = pages.get(name)
    if (!page && !fs.existsSync(path.join(site, name))) dead.push(`${from}: there is no ${to}`)
    else if (page && anchor && !page.ids.has(anchor)) dead.push(`${from}: no heading for ${to}`)
  }
}
if (links < 500) dead.push(`only ${links} links were found`)
for (const line of dead) console.error(line)
console.log(`${pages.size} pages, ${links} links, ${dead.length} dead`)
process.exit(dead.length ? 1 : 0)
