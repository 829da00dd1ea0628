/**
 * The guide's own page: its words are in it already, only the theme is the one that was chosen for the page.
 */
import { applyTheme, onSystemTheme, storedTheme } from './ui/theme';

applyTheme(storedTheme());
onSystemTheme(() => applyTheme(storedTheme()));
