// SPDX-License-Identifier: Apache-2.0
// The page is complete without this script. Text enters the document as text only: nothing in a record
// becomes markup.
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const table = document.getElementById('cases');
const rows = [...table.tBodies[0].rows];
rows.forEach((row, i) => { row.details = data.cases[i]; });

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// ---- copy buttons

function addCopyButton(code) {
  const button = make('button', 'copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = 'copied';
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = 'selected';
    }
    setTimeout(() => { button.textContent = 'copy'; }, 1500);
  });
  code.after(button);
}
document.querySelectorAll('code.command').forEach(addCopyButton);

// ---- the details of a case, under its row

function detailsOf(details) {
  const cell = make('td');
  cell.colSpan = table.tHead.rows[0].cells.length;
  cell.append(make('p', details.reason), make('p', `${data.recipes[details.recipe]}; on ${details.device}`, 'muted'));
  if (details.shrunk_from) cell.append(make('p', `shrunk from ${details.shrunk_from}`, 'muted mono'));
  if (details.capsule) cell.append(make('p', `its tensors: ${details.capsule}`, 'muted mono'));
  if (details.outputs.length > 0) {
    const outputs = make('table');
    const head = outputs.createTHead().insertRow();
    data.columns.forEach(name => head.append(make('th', name, 'number')));
    details.outputs.forEach(numbers => {
      const row = outputs.insertRow();
      numbers.forEach(number => row.append(make('td', number, 'number')));
    });
    cell.append(outputs);
  }
  const command = make('code', details.replay);
  const line = make('p');
  line.append(command);
  addCopyButton(command);
  cell.append(line);
  const row = make('tr', undefined, 'details');
  row.append(cell);
  return row;
}

function close(row) {
  row.nextElementSibling.remove();
  row.classList.remove('open');
}
function toggle(row) {
  if (row.classList.contains('open')) return close(row);
  row.after(detailsOf(row.details));
  row.classList.add('open');
}
table.tBodies[0].addEventListener('click', event => {
  const link = event.target.closest('a');
  if (!link) return;
  event.preventDefault();
  history.replaceState(null, '', link.getAttribute('href'));
  toggle(link.closest('tr'));
});
function openTarget() {
  const row = document.getElementById(location.hash.slice(1));
  if (!row || !rows.includes(row)) return;
  row.hidden = false;
  if (!row.classList.contains('open')) toggle(row);
  row.scrollIntoView({block: 'center'});
}
addEventListener('hashchange', openTarget);
openTarget();

// ---- filter: every word must occur in the row

const filter = document.getElementById('filter');
const shown = document.getElementById('shown');
function applyFilter() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(word => word);
  let count = 0;
  for (const row of rows) {
    if (row.classList.contains('open')) close(row);
    const text = row.text ??= row.textContent.toLowerCase();
    row.hidden = !words.every(word => text.includes(word));
    count += !row.hidden;
  }
  shown.textContent = `${count} of ${rows.length}`;
}
filter.addEventListener('input', applyFilter);
document.querySelector('.tools').hidden = false;
applyFilter();
openTarget();
addEventListener('keydown', event => {
  if (event.key === '/' && document.activeElement.tagName !== 'INPUT') {
    event.preventDefault();
    filter.focus();
  }
});

// ---- sorting: numbers by value, what was not measured last in both directions

function valueOf(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent;
  if (text === '–') return undefined;
  const number = text === 'inf' ? Infinity : Number(text);
  return Number.isNaN(number) ? text : number;
}
function sortBy(column, descending) {
  rows.filter(row => row.classList.contains('open')).forEach(close);
  const keyed = rows.map((row, i) => ({row, i, value: valueOf(row, column)}));
  keyed.sort((a, b) => {
    if (a.value === undefined || b.value === undefined) return (a.value === undefined) - (b.value === undefined) || a.i - b.i;
    const order = a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
    return (descending ? -order : order) || a.i - b.i;
  });
  table.tBodies[0].append(...keyed.map(entry => entry.row));
}
[...table.tHead.rows[0].cells].forEach((head, column) => {
  const button = make('button', head.textContent);
  button.addEventListener('click', () => {
    const descending = head.getAttribute('aria-sort') === 'ascending' || (column > 1 && !head.hasAttribute('aria-sort'));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
    sortBy(column, descending);
  });
  head.replaceChildren(button);
});
