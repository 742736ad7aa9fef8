'use strict';
// Adds tips, selections along axes, sorting and copying to a page that is complete without it.
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const text = (parameter, code) => code === null ? '–' : parameter.levels.length ? parameter.levels[code] : String(code);
  const time = ns => ns < 1e3 ? ns.toFixed(0) + ' ns' : ns < 1e6 ? (ns / 1e3).toFixed(1) + ' µs' : ns < 1e9 ? (ns / 1e6).toFixed(2) + ' ms' : (ns / 1e9).toFixed(2) + ' s';
  const metric = value => value === null ? '' : data.time ? time(value) : String(value);
  const describe = row => ['trial ' + row[0] + ': ' + (row[1] === null ? data.statuses[row[2]].replace(/_/g, ' ') : metric(row[1]))]
    .concat(data.parameters.map((parameter, i) => parameter.name + ' = ' + text(parameter, row[3 + i]))).join('\n');
  const inside = (svg, event) => {
    const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    return [(event.clientX - box.left) * view.width / box.width, (event.clientY - box.top) * view.height / box.height];
  };

  const tip = document.createElement('div');
  tip.id = 'tip';
  tip.hidden = true;
  document.body.append(tip);
  const show = (event, what) => {
    tip.textContent = what;
    tip.hidden = false;
    const left = Math.min(event.pageX + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
    tip.style.left = left + 'px';
    tip.style.top = event.pageY + 14 + 'px';
  };

  // Finds the point nearest to the pointer. The dots' path has the verified trials in the order of the data.
  const history = document.getElementById('history');
  if (history) {
    const rows = data.trials.filter(row => row[1] !== null);
    const places = history.querySelector('.dots.verified').getAttribute('d').split('M').slice(1).map(dot => dot.split(/[ h]/).map(Number));
    const mark = document.getElementById('history-mark');
    history.addEventListener('pointermove', event => {
      const [x, y] = inside(history, event);
      let nearest = -1, least = 400;
      places.forEach(([px, py], i) => {
        const distance = (px - x) ** 2 + (py - y) ** 2;
        if (distance < least) [nearest, least] = [i, distance];
      });
      mark.setAttribute('visibility', nearest < 0 ? 'hidden' : 'visible');
      if (nearest < 0) { tip.hidden = true; return; }
      mark.setAttribute('cx', places[nearest][0]);
      mark.setAttribute('cy', places[nearest][1]);
      show(event, describe(rows[nearest]));
    });
    history.addEventListener('pointerleave', () => { tip.hidden = true; mark.setAttribute('visibility', 'hidden'); });
  }

  const parallel = document.getElementById('parallel');
  if (parallel) {
    const { top, bottom, left, right, axes } = Object.fromEntries(Object.entries(parallel.dataset).map(([key, value]) => [key, Number(value)]));
    const parameters = data.parameters.slice(0, axes - 1);
    const across = i => axes < 2 ? left : left + (right - left) * i / (axes - 1);
    const up = place => bottom - (bottom - top) * place;
    const ranked = data.trials.filter(row => row[1] !== null).sort((a, b) => a[1] - b[1]);
    const lines = ranked.map((row, rank) => parameters.map((parameter, i) => {
      const code = row[3 + i];
      if (code === null) return null;
      const [low, high] = parameter.levels.length ? [0, parameter.levels.length - 1] : parameter.range;
      return high > low ? (code - low) / (high - low) : 0.5;
    }).concat(ranked.length > 1 ? 1 - rank / (ranked.length - 1) : 1));
    const ranges = new Map();
    const chosen = document.getElementById('parallel-chosen'), count = document.getElementById('chosen-count');
    const update = () => {
      parallel.querySelector('.lines').classList.toggle('dimmed', ranges.size > 0);
      const kept = ranges.size === 0 ? [] : lines.map((line, i) => i).filter(i => [...ranges].every(([axis, [low, high]]) => lines[i][axis] !== null && lines[i][axis] >= low && lines[i][axis] <= high));
      chosen.setAttribute('d', kept.map(i => {
        let down = false;
        return lines[i].map((place, axis) => {
          if (place === null) { down = false; return ''; }
          const step = (down ? 'L' : 'M') + across(axis).toFixed(1) + ' ' + up(place).toFixed(1);
          down = true;
          return step;
        }).join('');
      }).join(''));
      count.textContent = ranges.size === 0 ? '' : kept.length + ' of ' + ranked.length + ' trials chosen' + (kept.length ? ', the fastest of them: ' + describe(ranked[kept[0]]).replace(/\n/g, ', ') : '');
      parallel.querySelectorAll('.range').forEach(old => old.remove());
      for (const [axis, [low, high]] of ranges) {
        const box = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
        box.setAttribute('class', 'range');
        box.setAttribute('x', across(axis) - 7);
        box.setAttribute('width', 14);
        box.setAttribute('y', up(high));
        box.setAttribute('height', up(low) - up(high));
        parallel.append(box);
      }
    };
    let drag = null;
    parallel.addEventListener('pointerdown', event => {
      const [x, y] = inside(parallel, event);
      const axis = axes < 2 ? 0 : Math.round((x - left) / (right - left) * (axes - 1));
      if (axis < 0 || axis >= axes || Math.abs(x - across(axis)) > 30) return;
      drag = { axis, from: (bottom - y) / (bottom - top) };
      parallel.setPointerCapture(event.pointerId);
    });
    parallel.addEventListener('pointermove', event => {
      if (!drag) return;
      const to = (bottom - inside(parallel, event)[1]) / (bottom - top);
      if (Math.abs(to - drag.from) > 0.015) ranges.set(drag.axis, [Math.min(drag.from, to), Math.max(drag.from, to)]);
      update();
    });
    parallel.addEventListener('pointerup', event => {
      if (!drag) return;
      const to = (bottom - inside(parallel, event)[1]) / (bottom - top);
      if (Math.abs(to - drag.from) <= 0.015) ranges.delete(drag.axis);
      drag = null;
      update();
    });
  }

  document.querySelectorAll('table.sortable').forEach(table => {
    table.querySelectorAll('th').forEach((heading, column) => heading.addEventListener('click', () => {
      const key = row => { const cell = row.cells[column]; return cell.dataset.value ?? cell.textContent; };
      const up = heading.dataset.up !== 'yes';
      heading.dataset.up = up ? 'yes' : 'no';
      const body = table.tBodies[0];
      const order = (a, b) => { const [x, y] = [key(a), key(b)]; const numeric = x - y; return Number.isNaN(numeric) ? String(x).localeCompare(y, 'en', { numeric: true }) : numeric; };
      [...body.rows].sort((a, b) => up ? order(a, b) : order(b, a)).forEach(row => body.append(row));
    }));
  });

  document.querySelectorAll('.copy').forEach(button => {
    if (!navigator.clipboard) return;
    button.hidden = false;
    button.addEventListener('click', () => navigator.clipboard.writeText(button.parentElement.querySelector('code').textContent).then(() => { button.textContent = 'Copied'; }));
  });
})();
