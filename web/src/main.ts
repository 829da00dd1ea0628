/**
 * The monitor page. Start at `app.ts`; the pure parts are in `model/` and `wire/`, the chart in `chart.ts`.
 */
import { App } from './app';
import './style.css';

new App().start();
