// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs'
import path from 'node:path'
import { defineConfig } from 'vitepress'

const source = path.join(import.meta.dirname, '../src')

// section lists pages by their names, in this order, with their first headings.
function section(text, folder, names, collapsed = false) {
  const there = fs.readdirSync(path.join(source, folder)).filter((n) => n.endsWith('.md')).map((n) => n.slice(0, -3))
  const missing = there.filter((n) => !names.includes(n) && n !== 'index' && folder)
  if (missing.length) throw new Error(`the menu has not ${folder}: ${missing}`)
  return { text, collapsed, items: names.map((name) => {
    const page = path.posix.join('/', folder, name)
    const heading = /^# (.*)$/m.exec(fs.readFileSync(path.join(source, page + '.md'), 'utf8'))[1]
    return { text: heading.replace(/`/g, ''), link: page + '.html' }
  }) }
}

// slug is GitHub's, which the links of the documents have.
const slug = (heading) => heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')

// labelCells gives each cell of a table the head of its column, which theme/style.css shows on phones.
function labelCells(state) {
  let heads, column
  for (const [i, token] of state.tokens.entries()) {
    switch (token.type) {
      case 'table_open':
        heads = []
        break
      case 'tr_open':
        column = 0
        break
      case 'th_open':
        heads.push(state.tokens[i + 1].content.replace(/[`*[\]]|\([^)]*\)/g, ''))
        break
      case 'td_open':
        token.attrSet('data-head', column === 0 ? '' : heads[column])
        column++
    }
  }
}

export default defineConfig({
  title: 'mcpscope',
  description: 'Nothing is left of an MCP server once its agent is gone',
  lang: 'en',
  srcDir: 'src',
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Guides', link: '/guides/claude-code.html' },
      { text: 'Concepts', link: '/concepts.html' },
      { text: 'Troubleshooting', link: '/reference/troubleshooting.html' },
    ],
    sidebar: [
      { text: 'Start', link: '/' },
      section('Guides', 'guides', ['claude-code', 'codex', 'vscode-and-cursor', 'yaml-clients', 'opencode-and-gemini',
        'agents', 'gateway-as-a-service', 'your-own-program', 'containers-and-ci', 'shared-server', 'slurm', 'kubernetes',
        'many-hosts',
        'limits', 'idle-servers', 'look-for-leaks-today', 'keep-running', 'uninstall']),
      section('Understand', '', ['concepts', 'guarantees']),
      section('Reference', 'reference', ['troubleshooting', 'commands', 'settings', 'clients', 'gateway', 'units',
        'limits', 'idle', 'leaks', 'containers', 'json', 'metrics', 'exit-statuses', 'differences']),
      section('Development', 'dev', ['architecture', 'how-it-works', 'security', 'testing', 'measurements', 'leaks',
        'hosts'], true),
    ],
    socialLinks: [{ icon: 'github', link: 'https://github.com/mcpscope/mcpscope' }],
  },
  markdown: {
    anchor: { slugify: slug },
    config(md) {
      md.core.ruler.push('label-cells', labelCells)
      // "{{" is text in our documents, and not an expression of Vue.
      for (const rule of ['text', 'code_inline']) {
        const before = md.renderer.rules[rule]
        md.renderer.rules[rule] = (...args) => before(...args).replaceAll('{{', '&#123;&#123;')
      }
    },
  },
  vite: { build: { assetsInlineLimit: 0 } }, // the style knows pictures by their names
})
