//! The report as HTML, PNG and CSV.

use drawing::{Column, FigureError, Page};

use super::figure::charts;
use super::report::{Point, Report};
use super::{csv, table};
use crate::report::page::circumstances;
use crate::report::{Forms, add_conclusions, noise};

impl Forms for Report {
    fn to_html(&self) -> Result<String, FigureError> {
        let mut page = Page::new("Capacity", "Datagrams received per second");
        circumstances(&mut page, &self.circumstances(), &self.noise_in_short());
        page.figures(&drawing::svgs(&charts(self))?);
        add_conclusions(&mut page, "002", &self.conclusions);
        page.heading("Every point");
        let columns = [
            Column::Word("receivers"),
            Column::Number("payload [B]"),
            Column::Number("receivers"),
            Column::Number("received [1/s]"),
            Column::Number("min – max"),
            Column::Number("UDP notes"),
            Column::Number("lost"),
            Column::Number("receivers' CPU"),
            Column::Word("all processors of the host"),
        ];
        page.table(&columns, self.points.iter().map(cells));
        page.heading("The accounts");
        page.paragraph("sent = received + lost at each stage + unexplained, all runs of a point together.");
        let columns = [Column::Word("receivers"), Column::Word("of"), Column::Word("account")];
        let account =
            |point: &Point| vec![point.threading_model.to_string(), point.case(), table::account(point)];
        page.table(&columns, self.points.iter().map(account));
        Ok(page.end(&[self.cut_runs(), self.end.notes.clone()].concat()))
    }

    fn to_png(&self) -> Result<Vec<u8>, FigureError> {
        let header = format!("{}\n{}", self.circumstances(), noise::in_words(&self.noise_in_short()));
        drawing::png(&charts(self), &header)
    }

    fn to_csv(&self) -> String {
        csv::table(self)
    }
}

fn cells(point: &Point) -> Vec<String> {
    let table::Cells { rate, spread, source, lost, cpu } = table::Cells::of(point);
    let shares = point.runs.last().and_then(|run| run.processors);
    let shares = shares.map_or_else(String::new, |shares| shares.in_words());
    let (threading_model, workers) = (point.threading_model.to_string(), point.workers.to_string());
    vec![threading_model, point.payload_bytes.to_string(), workers, rate, spread, source, lost, cpu, shares]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::report::tests::example;

    #[test]
    fn a_page_has_every_point_its_account_and_the_sources_conclusions() {
        let page = example().to_html().unwrap();
        for part in ["own-processes", "791,676", "UDP notes", "2400003 sent", "<svg", "SO_REUSEPORT"] {
            assert_eq!(page.contains(part), part != "SO_REUSEPORT", "{part}");
        }
        assert_eq!(&example().to_png().unwrap()[1..4], b"PNG");
    }
}
