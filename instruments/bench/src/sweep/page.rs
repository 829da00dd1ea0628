//! The report as HTML, PNG and CSV.

use drawing::{Column, FigureError, Page};

use super::figure::charts;
use super::report::{Point, Report};
use super::{csv, table};
use crate::report::page::circumstances;
use crate::report::{Forms, noise};

impl Forms for Report {
    fn to_html(&self) -> Result<String, FigureError> {
        let mut page = Page::new("Sweep", "Throughput and loss over buffers, sizes, rates and load");
        circumstances(&mut page, &self.circumstances(), &self.noise_in_short());
        page.figures(&drawing::svgs(&charts(self))?);
        page.heading("Every point");
        let columns = [
            Column::Number("payload"),
            Column::Number("rate"),
            Column::Number("send buffer"),
            Column::Number("receive buffer"),
            Column::Number("load, measured"),
            Column::Number("sent"),
            Column::Number("received"),
            Column::Number("min – max"),
            Column::Number("lost"),
        ];
        page.table(&columns, self.points.iter().map(|point| table::cells(point).to_vec()));
        page.heading("The accounts");
        page.paragraph("sent = received + lost at each stage + unexplained, all runs of a point together.");
        let account = |point: &Point| vec![point.case(), table::account(point)];
        page.table(&[Column::Word("of"), Column::Word("account")], self.points.iter().map(account));
        Ok(page.end(&self.end.notes))
    }

    fn to_png(&self) -> Result<Vec<u8>, FigureError> {
        let header = format!("{}\n{}", self.circumstances(), noise::in_words(&self.noise_in_short()));
        drawing::png(&charts(self), &header)
    }

    fn to_csv(&self) -> String {
        csv::table(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::report::tests::example;

    #[test]
    fn a_page_has_every_point_and_its_account() {
        let page = example().to_html().unwrap();
        for part in ["1472B/max/send system/receive 1048576/burn 50%", "98 %", "300000 sent", "<svg"] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(&example().to_png().unwrap()[1..4], b"PNG");
    }
}
