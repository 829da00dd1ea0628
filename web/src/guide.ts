/**
 * The guide's own page: its text is included already, only the theme is that chosen for the page.
 */
import { applyTheme, onSystemTheme, storedTheme } from './ui/theme';

applyTheme(storedTheme());
onSystemTheme(() => applyTheme(storedTheme()));
